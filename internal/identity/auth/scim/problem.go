package scim

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// The kinds of problems that SCIM has a word for (RFC 7644, section 3.12).
const (
	invalidFilter = "invalidFilter"
	invalidPath   = "invalidPath"
	invalidSyntax = "invalidSyntax"
	invalidValue  = "invalidValue"
	mutability    = "mutability"
	noTarget      = "noTarget"
	uniqueness    = "uniqueness"
)

// A problem is an error with SCIM's word for it. It travels as an error through code that knows
// nothing of SCIM.
type problem struct {
	word  string
	fault *fault.Error
}

func (p *problem) Error() string { return p.fault.Error() }

func (p *problem) Unwrap() error { return p.fault }

func refuse(word, format string, args ...any) error {
	return &problem{word, fault.New(fault.Malformed, format, args...)}
}

// taken is for a name or an address that somebody else has, which providers show to their
// administrators.
func taken(format string, args ...any) error {
	return &problem{uniqueness, fault.New(fault.Conflict, format, args...)}
}

// messageOf is what a provider may read of an error.
func messageOf(err error) string {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known.Message
	}
	return ""
}

type errorOutput struct {
	Schemas []string `json:"schemas"`
	Status  string   `json:"status"`
	Word    string   `json:"scimType,omitempty"`
	Detail  string   `json:"detail"`
}

// ServeError answers with an error in SCIM's shape. Internal errors are only logged; the provider
// gets the request's id.
func (s *Service) ServeError(w http.ResponseWriter, r *http.Request, err error) {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = fault.New(fault.TooLarge, "The body is over the limit of %d KiB", large.Limit>>10)
	}
	status, detail := http.StatusInternalServerError, "Internal error; request "+httpapi.RequestID(r.Context())
	known, ok := errors.AsType[*fault.Error](err)
	if ok && known.Kind != fault.Internal {
		status, detail = httpapi.Status(known.Kind), known.Message
		if known.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(known.RetryAfter.Seconds()))))
		}
	}
	out := errorOutput{Schemas: []string{errorSchema}, Status: strconv.Itoa(status), Detail: detail}
	if p, ok := errors.AsType[*problem](err); ok {
		out.Word = p.word
	} else if status == http.StatusBadRequest {
		// A 400 has one of SCIM's words (RFC 7644, section 3.12).
		out.Word = invalidValue
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if status >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.Log.Error("SCIM failed", "route", r.Pattern, "request_id", httpapi.RequestID(r.Context()), "error", err)
	}
	write(w, status, out)
}

// write answers with a resource or an error. Nothing of it is for shared caches.
func write(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err) // made of text, numbers and lists
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the client is gone if this fails
}
