// Package otlp is OTLP on the wire: it decodes bodies within a memory budget,
// reduces them to what is known to be harmless, and encodes the answers.
package otlp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

const (
	// maxMessages bounds the memory of a decoded body (decompression bombs): an
	// empty message takes two bytes on the wire and messageCost in memory. The
	// largest batches of a collector have some hundred thousand.
	maxMessages = 2_000_000
	// messageCost is the memory that a decoded message takes, in bytes.
	messageCost = 280
	// maxDepth bounds how deeply attributes may be nested.
	maxDepth = 100
)

// An Encoding is that of a request, and of its response.
type Encoding struct {
	MediaType string
}

// The encodings of OTLP over HTTP.
var (
	Protobuf = Encoding{"application/x-protobuf"}
	JSON     = Encoding{"application/json"}
)

// EncodingOf returns the encoding of a Content-Type.
func EncodingOf(contentType string) (Encoding, error) {
	media, _, _ := mime.ParseMediaType(contentType) // "" is unsupported, too
	for _, e := range []Encoding{Protobuf, JSON} {
		if media == e.MediaType {
			return e, nil
		}
	}
	return Encoding{}, fault.New(fault.Unsupported, "Content-Type %q is not read here; send %s or %s",
		contentType, Protobuf.MediaType, JSON.MediaType)
}

var errDeep = errors.New("it is nested too deeply")

// Decode reads a body into m. It rejects a body that would take too much memory
// before it is decoded.
func (e Encoding) Decode(ctx context.Context, raw []byte, m proto.Message) error {
	if e == JSON {
		raw, messages := binaryIDs(raw)
		if messages > maxMessages {
			return tooManyMessages()
		}
		return protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxDepth}.Unmarshal(raw, m)
	}
	left, err := spendBudget(raw, m.ProtoReflect().Descriptor(), maxMessages, maxDepth)
	if err != nil {
		return err
	}
	if left < 0 {
		return tooManyMessages()
	}
	if err := httpapi.ReserveMemory(ctx, int64(maxMessages-left)*messageCost); err != nil {
		return err
	}
	return proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxDepth}.Unmarshal(raw, m)
}

func tooManyMessages() error {
	return fault.New(fault.TooLarge, "The body is over the limit of %d messages; send smaller batches", maxMessages)
}

// spendBudget subtracts the memory of a message from the budget left, counted in
// messages, and stops when it is exceeded. Packed varints count, too: they take
// more memory decoded than encoded.
func spendBudget(raw []byte, d protoreflect.MessageDescriptor, left, depth int) (int, error) {
	const numbers = 8 // so many cost as much as a message
	if depth == 0 {
		return left, errDeep
	}
	for left--; len(raw) > 0 && left >= 0; {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return left, protowire.ParseError(n)
		}
		raw = raw[n:]
		size := protowire.ConsumeFieldValue(number, kind, raw)
		if size < 0 {
			return left, protowire.ParseError(size)
		}
		field := d.Fields().ByNumber(number)
		if kind == protowire.BytesType && field != nil {
			value, _ := protowire.ConsumeBytes(raw)
			switch {
			case field.Message() != nil:
				var err error
				if left, err = spendBudget(value, field.Message(), left, depth-1); err != nil {
					return left, err
				}
			case field.Kind() == protoreflect.Uint64Kind:
				left -= len(value) / numbers
			case field.IsList():
				left--
			}
		}
		raw = raw[size:]
	}
	return left, nil
}

// binaryIDs rewrites OTLP's JSON for protojson, and counts its objects: OTLP
// encodes the ids of traces and spans in hex, protojson reads all bytes as
// base64. Invalid JSON stays invalid.
func binaryIDs(raw []byte) (out []byte, objects int) {
	out = make([]byte, 0, len(raw))
	isID := false // the next value is an id
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case '"':
			end := stringEnd(raw, i)
			token := raw[i:end]
			switch {
			case isKey(raw[end:]):
				isID = idKeys[string(token)]
			case isID:
				token, isID = base64ID(token), false
			}
			out = append(out, token...)
			i = end
			continue
		case ' ', '\t', '\r', '\n', ':':
		case '{':
			objects++
			isID = false
		default:
			isID = false
		}
		out = append(out, raw[i])
		i++
	}
	return out, objects
}

var idKeys = map[string]bool{
	`"traceId"`: true, `"spanId"`: true, `"parentSpanId"`: true,
	`"trace_id"`: true, `"span_id"`: true, `"parent_span_id"`: true,
}

// stringEnd returns the index after the string that begins at start.
func stringEnd(raw []byte, start int) int {
	for i := start + 1; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(raw)
}

// isKey reports whether the string before rest is the key of an object.
func isKey(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c == ':'
	}
	return false
}

// base64ID converts a quoted id from hex to base64. What is not hex is left for
// protojson to reject.
func base64ID(token []byte) []byte {
	id, err := hex.DecodeString(string(token[1:max(1, len(token)-1)]))
	if err != nil {
		return token
	}
	return []byte(`"` + base64.StdEncoding.EncodeToString(id) + `"`)
}

// Success responds to a body that was ingested: empty, or a partialSuccess with
// the number of rejected records, whose field has another name in each signal's
// JSON, and a message. With none rejected the message is a warning, as OTLP
// defines it.
func (e Encoding) Success(field string, rejected int, message string) httpapi.Stream {
	body := e.encode(nil, struct{}{})
	if message != "" {
		partial := countAndMessage(uint64(rejected), message)
		body = e.encode(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial),
			map[string]any{"partialSuccess": map[string]string{field: strconv.Itoa(rejected), "errorMessage": message}})
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", e.MediaType)
		_, _ = w.Write(body) // it fails only if the client is gone
	}
}

// rpcCodes are the google.rpc.Codes of HTTP statuses (google/rpc/code.proto).
var rpcCodes = map[int]int{
	http.StatusBadRequest:          3,  // INVALID_ARGUMENT
	http.StatusGatewayTimeout:      4,  // DEADLINE_EXCEEDED
	http.StatusForbidden:           7,  // PERMISSION_DENIED
	http.StatusTooManyRequests:     8,  // RESOURCE_EXHAUSTED
	http.StatusInternalServerError: 13, // INTERNAL
	http.StatusServiceUnavailable:  14, // UNAVAILABLE
	http.StatusUnauthorized:        16, // UNAUTHENTICATED
}

// CodeOf returns the google.rpc.Code of an HTTP status.
func CodeOf(status int) int { return cmp.Or(rpcCodes[status], rpcCodes[http.StatusBadRequest]) }

// EncodeStatus encodes an error as a google.rpc.Status in the encoding of the
// request, as OTLP requires; in JSON if that is neither.
func EncodeStatus(request http.Header, status int, message string) (mediaType string, body []byte) {
	e, err := EncodingOf(request.Get("Content-Type"))
	if err != nil {
		e = JSON
	}
	code := CodeOf(status)
	return e.MediaType, e.encode(countAndMessage(uint64(code), message), Status{code, message})
}

// Status is a google.rpc.Status, the body of every error of OTLP.
type Status struct {
	Code    int    `json:"code" example:"3" doc:"A google.rpc.Code"`
	Message string `json:"message"`
}

// countAndMessage encodes a number as field 1 and a text as field 2.
func countAndMessage(n uint64, message string) []byte {
	raw := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), n)
	return protowire.AppendString(protowire.AppendTag(raw, 2, protowire.BytesType), message)
}

// MessageOf returns the message of a google.rpc.Status in protobuf; "" if it has none.
func MessageOf(raw []byte) string {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return ""
		}
		if number == 2 && kind == protowire.BytesType {
			message, _ := protowire.ConsumeString(raw[n:])
			return message
		}
		size := protowire.ConsumeFieldValue(number, kind, raw[n:])
		if size < 0 {
			return ""
		}
		raw = raw[n+size:]
	}
	return ""
}

// encode returns the message, or in JSON the object.
func (e Encoding) encode(message []byte, object any) []byte {
	if e == JSON {
		message, _ = json.Marshal(object) // maps and structs of strings and numbers always marshal
	}
	return message
}
