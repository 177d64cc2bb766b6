package grpc

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/otlp"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// Codes of google/rpc/code.proto that HTTP has no equal for.
const (
	invalidArgument = 3
	unimplemented   = 12
)

// A status is that of a failed call.
type status struct {
	code    int
	message string
	// retryAfter is in seconds; 0 if a retry makes no sense. Exporters retry
	// RESOURCE_EXHAUSTED only if it is there.
	retryAfter int
}

// statusOf returns the status of a call whose route answered with an error.
func statusOf(code int, header http.Header, body []byte) status {
	s := status{code: otlp.CodeOf(code), message: messageOf(header.Get("Content-Type"), body)}
	switch code {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		s.code = unimplemented
	}
	if s.message == "" {
		s.message = http.StatusText(code)
	}
	s.retryAfter, _ = strconv.Atoi(header.Get("Retry-After")) // 0 without one
	return s
}

// messageOf reads the message of an error, whose body is that of the route in
// protobuf, or of the API in JSON.
func messageOf(mediaType string, body []byte) string {
	if mediaType == otlp.Protobuf.MediaType {
		return otlp.MessageOf(body)
	}
	var e httpapi.StructuredError
	_ = json.Unmarshal(body, &e) // "" if it is something else
	return e.Error.Message
}

// write sets the trailers.
func (s status) write(h http.Header) {
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(s.code))
	h.Set(http.TrailerPrefix+"Grpc-Message", percentEncode(s.message))
	if s.retryAfter > 0 {
		h.Set(http.TrailerPrefix+"Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(s.details()))
	}
}

// details is the status as google.rpc.Status with a google.rpc.RetryInfo.
func (s status) details() []byte {
	seconds := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(s.retryAfter))
	delay := appendBytes(nil, 1, seconds) // google.protobuf.Duration
	info := appendBytes(nil, 1, []byte("type.googleapis.com/google.rpc.RetryInfo"))
	info = appendBytes(info, 2, delay)
	raw := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(s.code))
	raw = appendBytes(raw, 2, []byte(s.message))
	return appendBytes(raw, 3, info)
}

func appendBytes(raw []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(raw, field, protowire.BytesType), value)
}

// percentEncode encodes a message for a header: all but printable ASCII, and %.
func percentEncode(message string) string {
	var out strings.Builder
	for i := range len(message) {
		if c := message[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&out, "%%%02X", c)
			continue
		}
		out.WriteByte(message[i])
	}
	return out.String()
}
