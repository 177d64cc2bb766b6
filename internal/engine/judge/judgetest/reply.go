package judgetest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// A Request is one that the server got, in no wire format.
type Request struct {
	API    string
	Path   string
	Header http.Header
	Model  string
	System string
	User   string
	// Schema is that of the answer that was asked for, in whatever way.
	Schema json.RawMessage
	// Fields are those of the body.
	Fields map[string]json.RawMessage
	Body   []byte
}

// A Reply is what the model answers. The zero value is an empty answer.
type Reply struct {
	Text string
	// Tool answers with a tool call, where the format has it.
	Tool json.RawMessage
	// Finish is why the answer ended: "" for its natural end, length,
	// content_filter or refusal.
	Finish string
	Model  string // as returned; empty returns the one that was asked
	Input  int64  // tokens; 0 and Output 0 leave the usage out
	Output int64

	// Status other than 0 and 200 answers with the format's error body.
	Status  int
	Message string
	Header  http.Header

	// Body replaces the whole body, if not nil.
	Body     []byte
	Truncate bool // the connection breaks in the middle of the body
	Delay    time.Duration
	Hang     bool // nothing is answered until the client gives up
}

// Text answers with a text, and 100 and 20 tokens.
func Text(text string) Reply { return Reply{Text: text, Input: 100, Output: 20} }

// JSON answers with a value as JSON text.
func JSON(v any) Reply {
	text, err := json.Marshal(v)
	if err != nil {
		return Fail(http.StatusInternalServerError, err.Error())
	}
	return Text(string(text))
}

// Fail answers with an error.
func Fail(status int, message string) Reply { return Reply{Status: status, Message: message} }

// RateLimited answers 429 and asks for a pause.
func RateLimited(after time.Duration) Reply {
	r := Fail(http.StatusTooManyRequests, "Rate limit reached for requests")
	r.Header = http.Header{"Retry-After": {strconv.Itoa(int(after.Seconds()))}}
	return r
}

// Overloaded answers 529, as messages servers do.
func Overloaded() Reply { return Fail(529, "Overloaded") }

// Hang never answers.
func Hang() Reply { return Reply{Hang: true} }

// Truncated breaks off in the middle of its body.
func Truncated() Reply { return Reply{Text: "this is never read to its end", Truncate: true} }

// Garbage answers 200 with what is no JSON.
func Garbage() Reply { return Reply{Body: []byte("<html><body>It works!</body></html>")} }

func (a Reply) write(w http.ResponseWriter, r Request, f format) {
	status, body := http.StatusOK, a.Body
	if a.Status != 0 {
		status = a.Status
	}
	switch {
	case body != nil:
	case status/100 == 2:
		body = f.success(r, a)
	default:
		body = f.failure(status, a.Message)
	}
	w.Header().Set("Content-Type", "application/json")
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	if a.Truncate {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		body = body[:len(body)/2]
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have gone
	if a.Truncate {
		panic(http.ErrAbortHandler)
	}
}
