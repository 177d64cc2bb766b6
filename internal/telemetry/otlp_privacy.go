package telemetry

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A scrubber takes out of a message what nobody but its sender should know,
// wherever in it that stands.
type scrubber struct {
	orgID string
	salt  []byte
}

// forbidden are the attributes that are dropped: who the person is, and what
// was said in the conversation.
var forbidden = setOf(
	"user.email", "user.account_uuid", "user.account_id", "user.name", "user.full_name", "user.groups", "organization.id",
	"enduser.id", "enduser.role", "enduser.scope", "process.owner", "process.user.name",

	"prompt", "user_prompt", "system_prompt", "user_system_prompt", "new_context", "response", "response.model_output",
	"body", "tool_input", "arguments", "input", "output",
	"gen_ai.prompt", "gen_ai.completion", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
	"gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.definitions",
	"github.copilot.message", "github.copilot.skill.content",
)

// pseudonyms are the attributes of which only a keyed hash is kept: enough to
// count people, not to find them.
var pseudonyms = setOf("user.id", "enduser.pseudo.id")

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

// message scrubs a message and all within it.
func (s scrubber) message(m protoreflect.Message) {
	if record, ok := m.Interface().(*logs.LogRecord); ok && isUtterance(record) {
		record.Body = nil
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsList() && field.Message() != nil:
			s.list(value.List())
		case field.IsList():
		case field.Message() != nil:
			s.message(value.Message())
		case field.Kind() == protoreflect.StringKind:
			if clean := scrubText(value.String()); clean != value.String() {
				m.Set(field, protoreflect.ValueOfString(clean))
			}
		case field.Name() == "bytes_value":
			m.Set(field, protoreflect.ValueOfBytes([]byte(scrubText(string(value.Bytes())))))
		}
		return true
	})
}

// list scrubs messages. Attributes that are forbidden are taken out.
func (s scrubber) list(list protoreflect.List) {
	kept := 0
	for i := range list.Len() {
		item := list.Get(i).Message()
		if attribute, ok := item.Interface().(*common.KeyValue); ok {
			key := strings.ToLower(attribute.Key)
			if forbidden[key] {
				continue
			}
			if pseudonyms[key] {
				attribute.Value = stringValue(s.pseudonym(textOf(attribute.Value)))
			}
		}
		s.message(item)
		list.Set(kept, protoreflect.ValueOfMessage(item))
		kept++
	}
	list.Truncate(kept)
}

func (s scrubber) pseudonym(id string) string {
	mac := hmac.New(sha256.New, s.salt)
	mac.Write([]byte(s.orgID + "\n" + id))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// isUtterance reports whether the body of a log record is part of the
// conversation: gen_ai.user.message, gen_ai.choice and the like.
func isUtterance(record *logs.LogRecord) bool {
	name := eventName(record, said{record.Attributes})
	return strings.HasPrefix(name, "gen_ai.") && (strings.HasSuffix(name, ".message") || name == "gen_ai.choice")
}

var (
	uriUser   = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/?#\s"'<>]*@`)
	uriSecret = regexp.MustCompile(`(?i)([?&#](?:[a-z0-9._-]*(?:token|secret|password|passwd|signature|credential)|(?:api_?|access_?)?key|sig|auth|code)=)[^&#\s"'<>]+`)
	email     = regexp.MustCompile(`[\pL\pN._%+-]+(?:@|%40)[\pL\pN-]+(?:\.[\pL\pN-]+)*\.\pL{2,}`)
)

// scrubText takes credentials out of URIs and hides e-mail addresses.
func scrubText(s string) string {
	if strings.Contains(s, "://") {
		s = uriUser.ReplaceAllString(s, "$1")
		s = uriSecret.ReplaceAllString(s, "${1}[dropped]")
	}
	if strings.Contains(s, "@") || strings.Contains(s, "%40") {
		s = email.ReplaceAllString(s, "[email]")
	}
	return s
}
