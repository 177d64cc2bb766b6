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

// A redactor removes personal data (PII), conversations and credentials from a
// message, at any depth. It runs before anything is stored.
type redactor struct {
	orgID string
	salt  []byte
}

// redactedKeys are the attributes that are dropped: the identity of the user,
// and the content of the conversation, prompts included.
var redactedKeys = setOf(
	"user.email", "user.account_uuid", "user.account_id", "user.name", "user.full_name", "user.groups", "organization.id",
	"enduser.id", "enduser.role", "enduser.scope", "process.owner", "process.user.name",

	"prompt", "user_prompt", "system_prompt", "user_system_prompt", "new_context", "response", "response.model_output",
	"body", "tool_input", "arguments", "input", "output",
	"gen_ai.prompt", "gen_ai.completion", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
	"gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.definitions",
	"github.copilot.message", "github.copilot.skill.content",
)

// pseudonymizedKeys are the attributes that are replaced by a keyed hash: enough
// to count users, not to identify them.
var pseudonymizedKeys = setOf("user.id", "enduser.pseudo.id")

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

// message redacts a message and all messages within it.
func (r redactor) message(m protoreflect.Message) {
	if record, ok := m.Interface().(*logs.LogRecord); ok && isConversation(record) {
		record.Body = nil
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsList() && field.Message() != nil:
			r.list(value.List())
		case field.IsList():
		case field.Message() != nil:
			r.message(value.Message())
		case field.Kind() == protoreflect.StringKind:
			if clean := redactText(value.String()); clean != value.String() {
				m.Set(field, protoreflect.ValueOfString(clean))
			}
		case field.Name() == "bytes_value":
			m.Set(field, protoreflect.ValueOfBytes([]byte(redactText(string(value.Bytes())))))
		}
		return true
	})
}

// list redacts a list of messages and removes redacted attributes from it.
func (r redactor) list(list protoreflect.List) {
	kept := 0
	for i := range list.Len() {
		item := list.Get(i).Message()
		if attribute, ok := item.Interface().(*common.KeyValue); ok {
			key := strings.ToLower(attribute.Key)
			if redactedKeys[key] {
				continue
			}
			if pseudonymizedKeys[key] {
				hash := r.pseudonym(textOf(attribute.Value))
				attribute.Value = &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: hash}}
			}
		}
		r.message(item)
		list.Set(kept, protoreflect.ValueOfMessage(item))
		kept++
	}
	list.Truncate(kept)
}

// pseudonym is an HMAC, so that ids cannot be found by hashing guesses. The
// organisation is part of it: two cannot compare their users.
func (r redactor) pseudonym(id string) string {
	mac := hmac.New(sha256.New, r.salt)
	mac.Write([]byte(r.orgID + "\n" + id))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// isConversation reports whether the body of a log record is part of the
// conversation: gen_ai.user.message, gen_ai.choice and the like.
func isConversation(record *logs.LogRecord) bool {
	name := eventName(record, attributes{record.Attributes})
	return strings.HasPrefix(name, "gen_ai.") && (strings.HasSuffix(name, ".message") || name == "gen_ai.choice")
}

var (
	uriUser   = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/?#\s"'<>]*@`)
	uriSecret = regexp.MustCompile(`(?i)([?&#](?:[a-z0-9._-]*(?:token|secret|password|passwd|signature|credential)` +
		`|(?:api_?|access_?)?key|sig|auth|code)=)[^&#\s"'<>]+`)
	email = regexp.MustCompile(`[\pL\pN._%+-]+(?:@|%40)[\pL\pN-]+(?:\.[\pL\pN-]+)*\.\pL{2,}`)
)

// redactText removes credentials from URIs and replaces e-mail addresses.
func redactText(s string) string {
	if strings.Contains(s, "://") {
		s = uriUser.ReplaceAllString(s, "$1")
		s = uriSecret.ReplaceAllString(s, "${1}[dropped]")
	}
	if strings.Contains(s, "@") || strings.Contains(s, "%40") {
		s = email.ReplaceAllString(s, "[email]")
	}
	return s
}
