package otlp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A Redactor reduces a message to what is known to be harmless: numbers, ids and
// names. What people or models wrote, personal data (PII) and credentials are
// dropped, since nothing is kept that is not listed: see allowList. It runs before
// anything is read or stored.
type Redactor struct {
	OrgID string
	Salt  []byte
	// Fingerprints adds a keyed hash of the attributes that were dropped: without
	// it, two time series that differ only in those would be taken for one.
	Fingerprints bool
}

// fingerprint is the attribute with the hash of dropped attributes.
const fingerprint = "whetstone.dropped"

// maxKept bounds a text that is kept, in bytes.
const maxKept = 256

// keptText has the text fields of OTLP's messages that are kept, with the
// function that cleans them. All other text fields are cleared, those of future
// versions of the protocol included.
var keptText = map[protoreflect.FullName]func(string) string{
	"opentelemetry.proto.common.v1.InstrumentationScope.name":    wordOf,
	"opentelemetry.proto.common.v1.InstrumentationScope.version": wordOf,
	"opentelemetry.proto.logs.v1.LogRecord.severity_text":        wordOf,
	"opentelemetry.proto.logs.v1.LogRecord.event_name":           signalName,
	"opentelemetry.proto.trace.v1.Span.name":                     signalName,
	"opentelemetry.proto.trace.v1.Span.Event.name":               signalName,
	"opentelemetry.proto.metrics.v1.Metric.name":                 signalName,
	"opentelemetry.proto.metrics.v1.Metric.unit":                 wordOf,
}

// idLengths has the lengths of ids of traces and spans in bytes. Other bytes are
// cleared.
var idLengths = map[protoreflect.Name]int{"trace_id": 16, "span_id": 8, "parent_span_id": 8}

// Redact redacts a message.
func (r Redactor) Redact(m proto.Message) { r.message(m.ProtoReflect()) }

// message redacts a message and all messages within it.
func (r Redactor) message(m protoreflect.Message) {
	if record, ok := m.Interface().(*logs.LogRecord); ok {
		// Some agents put the event's name here, others the text.
		if body := record.GetBody().GetStringValue(); body == "" || signalName(body) != body {
			record.Body = nil
		}
	}
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
			redactField(m, field, value)
		case field.Message().FullName() == "opentelemetry.proto.common.v1.KeyValue":
			r.attributes(value.List())
		case field.Message().FullName() == "opentelemetry.proto.common.v1.AnyValue": // the body of a log record, above
		case field.IsList():
			for i := range value.List().Len() {
				r.message(value.List().Get(i).Message())
			}
		default:
			r.message(value.Message())
		}
		return true
	})
}

// redactField clears text and bytes that are not known to be harmless.
func redactField(m protoreflect.Message, field protoreflect.FieldDescriptor, value protoreflect.Value) {
	switch {
	case field.Kind() != protoreflect.StringKind && field.Kind() != protoreflect.BytesKind: // a number
	case field.IsList():
		m.Clear(field)
	case field.Kind() == protoreflect.BytesKind:
		if len(value.Bytes()) != idLengths[field.Name()] {
			m.Clear(field)
		}
	case keptText[field.FullName()] == nil:
		m.Clear(field)
	default:
		m.Set(field, protoreflect.ValueOfString(keptText[field.FullName()](value.String())))
	}
}

// attributes keeps the attributes of a list that are allowed.
func (r Redactor) attributes(list protoreflect.List) {
	all := make([]*common.KeyValue, list.Len())
	for i := range all {
		all[i] = list.Get(i).Message().Interface().(*common.KeyValue)
	}
	list.Truncate(0)
	keep := func(key string, value *common.AnyValue) {
		list.Append(protoreflect.ValueOfMessage((&common.KeyValue{Key: key, Value: value}).ProtoReflect()))
	}
	var dropped []*common.KeyValue
	for _, a := range all {
		if value := r.attribute(a, Attributes{all}); value != nil {
			keep(a.GetKey(), value)
		} else {
			dropped = append(dropped, a)
		}
	}
	if r.Fingerprints && len(dropped) > 0 {
		keep(fingerprint, textValue(r.pseudonym(Attributes{dropped}.Series())))
	}
}

// attribute returns what is kept of the value of an attribute; nil if nothing is.
func (r Redactor) attribute(a *common.KeyValue, beside Attributes) *common.AnyValue {
	if arguments, ok := skillArguments[a.GetKey()]; ok {
		if beside.Text(arguments.toolKey) != arguments.tool {
			return nil
		}
		// Reduce JSON to the field with the name of a skill.
		name := JSONField(a.GetValue().GetStringValue(), arguments.field)
		if name == "" {
			return nil
		}
		kept, _ := json.Marshal(map[string]string{arguments.field: skillName(name)}) // strings always marshal
		return textValue(string(kept))
	}
	if keep := shapes[a.GetKey()]; keep != nil {
		return keep(r, a.GetValue())
	}
	return nil
}

// A shape returns what is kept of a value; nil if nothing is.
type shape func(Redactor, *common.AnyValue) *common.AnyValue

// number keeps numbers and flags, also as text: "24", "true".
func (r Redactor) number(v *common.AnyValue) *common.AnyValue {
	s, isText := v.GetValue().(*common.AnyValue_StringValue)
	if !isText {
		return scalar(v)
	}
	_, notNumber := strconv.ParseFloat(s.StringValue, 64)
	_, notFlag := strconv.ParseBool(s.StringValue)
	if len(s.StringValue) > maxKept || notNumber != nil && notFlag != nil {
		return nil
	}
	return v
}

// scalar keeps what is neither text nor a container of other values.
func scalar(v *common.AnyValue) *common.AnyValue {
	switch v.GetValue().(type) {
	case *common.AnyValue_IntValue, *common.AnyValue_DoubleValue, *common.AnyValue_BoolValue:
		return v
	}
	return nil
}

// word keeps words.
func (r Redactor) word(v *common.AnyValue) *common.AnyValue { return keepText(v, wordOf) }

// name keeps text of one line.
func (r Redactor) name(v *common.AnyValue) *common.AnyValue { return keepText(v, nameOf) }

// skill keeps the name of a skill.
func (r Redactor) skill(v *common.AnyValue) *common.AnyValue { return keepText(v, skillName) }

// skillList keeps a list of names of skills, also one that is JSON.
func (r Redactor) skillList(v *common.AnyValue) *common.AnyValue {
	list := &common.ArrayValue{}
	for _, name := range TextsOf(v) {
		list.Values = append(list.Values, textValue(skillName(name)))
	}
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: list}}
}

// id keeps ids as they are; other text is replaced by a pseudonym, so that it
// still joins the records of a session or a call.
func (r Redactor) id(v *common.AnyValue) *common.AnyValue {
	return keepText(v, func(s string) string {
		if s == "" || wordOf(s) == s {
			return s
		}
		return r.pseudonym(s)
	})
}

// user replaces the id of a user by a pseudonym: enough to count users, not to
// identify them.
func (r Redactor) user(v *common.AnyValue) *common.AnyValue { return textValue(r.pseudonym(TextOf(v))) }

// keepText keeps scalars, and texts that clean leaves something of.
func keepText(v *common.AnyValue, clean func(string) string) *common.AnyValue {
	s, isText := v.GetValue().(*common.AnyValue_StringValue)
	if !isText {
		return scalar(v)
	}
	switch kept := clean(s.StringValue); kept {
	case s.StringValue:
		return v
	case "":
		return nil
	default:
		return textValue(kept)
	}
}

func textValue(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}

// wordOf returns a text that is one word of ASCII, without addresses and
// credentials; "" if it is anything else.
func wordOf(s string) string {
	if len(s) > maxKept || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return ""
	}
	return redactText(s)
}

// nameOf returns a text of one line, without addresses and credentials; "" if it
// is anything else.
func nameOf(s string) string {
	if len(s) > maxKept || !text.Valid(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return ""
	}
	return redactText(s)
}

// skillName is nameOf, but returns NUL for what is no name: the record is then
// rejected because of its skill, which "" would hide.
func skillName(s string) string {
	if name := nameOf(s); name != "" || s == "" {
		return name
	}
	return "\x00"
}

// signalName returns the first word of the name of an event, span or metric if
// it is a known one, else "".
func signalName(s string) string {
	word, _, _ := strings.Cut(s, " ")
	known := func(namespace string) bool { return strings.HasPrefix(word, namespace) }
	if slices.Contains(operations, word) || slices.ContainsFunc(namespaces, known) {
		return wordOf(word)
	}
	return ""
}

// pseudonym is an HMAC, so that ids cannot be found by hashing guesses. The
// organisation is part of it: two cannot compare their users.
func (r Redactor) pseudonym(id string) string {
	mac := hmac.New(sha256.New, r.Salt)
	mac.Write([]byte(r.OrgID + "\n" + id))
	return hex.EncodeToString(mac.Sum(nil)[:16])
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
