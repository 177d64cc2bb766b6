package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// maxReported is the most tokens that one request can have, and maxEvent the
// longest event that is read: the last one of a response repeats all of it.
const (
	maxReported = 100_000_000
	maxEvent    = 16 << 20
)

// An answerReader reads the tokens of an answer, and what it says, while it
// passes.
type answerReader struct {
	wire     wire
	streamed bool

	line  []byte // of an unfinished event; the whole answer if it is not streamed
	skip  bool   // the rest of a line that is too long
	bytes int64
	sum   pricing.Tokens
	final bool
	said  draft
	model string // that answers, by its first part that says so
}

func newAnswerReader(w wire, contentType string) *answerReader {
	return &answerReader{wire: w, streamed: strings.HasPrefix(contentType, "text/event-stream")}
}

// Write implements io.Writer. It never fails, so that a broken answer still reaches the program.
// Events are split at line feeds; all of these formats put the data of an event into one line.
func (r *answerReader) Write(p []byte) (int, error) {
	n := len(p)
	r.bytes += int64(n)
	if !r.streamed {
		r.keep(p)
		return n, nil
	}
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte("\n"))
		r.keep(line)
		if ended {
			data, ok := bytes.CutPrefix(r.line, []byte("data:"))
			if ok && bytes.Contains(data, []byte(`"usage`)) { // the others are not worth decoding
				r.add(data)
			}
			if ok {
				r.name(data)
				r.wire.said(data, &r.said)
			}
			r.line, r.skip = r.line[:0], false
		}
		p = rest
	}
	return n, nil
}

// keep collects a line. One that is too long is skipped as a whole, and its tokens are estimated by
// end.
func (r *answerReader) keep(part []byte) {
	if r.skip = r.skip || len(r.line)+len(part) > maxEvent; r.skip {
		r.line = nil
		return
	}
	r.line = append(r.line, part...)
}

// add merges the usage of a part. Servers send cumulative counts, and some parts lack some of them,
// so the maximum of each is right where a sum would count twice.
func (r *answerReader) add(data []byte) {
	t, final := r.wire.usage(data)
	for _, f := range []struct {
		to   *int64
		from int64
	}{
		{&r.sum.Input, t.Input},
		{&r.sum.Output, t.Output},
		{&r.sum.CacheRead, t.CacheRead},
		{&r.sum.CacheWrite, t.CacheWrite},
		{&r.sum.CacheWriteHour, t.CacheWriteHour},
	} {
		*f.to = max(*f.to, min(f.from, maxReported))
	}
	r.sum.CacheWriteHour = min(r.sum.CacheWriteHour, r.sum.CacheWrite)
	r.final = r.final || final
}

// maxModelName is the longest name of a model that is kept.
const maxModelName = 200

// name reads which model answers: what a server calls by one name changes behind it. All formats
// say it in one of these places, and streams in their first events.
func (r *answerReader) name(data []byte) {
	if r.model != "" || !bytes.Contains(data, []byte(`"model`)) {
		return
	}
	type named struct {
		Model string `json:"model"`
	}
	var in struct {
		named
		Message  named  `json:"message"`      // of message_start
		Response named  `json:"response"`     // of response.created
		Version  string `json:"modelVersion"` // of Google
	}
	if json.Unmarshal(data, &in) != nil {
		return
	}
	r.model = text.PlainLine(text.Truncate(cmp.Or(in.Model, in.Message.Model, in.Response.Model, in.Version), maxModelName))
}

// end returns the tokens of the answer, and whether the server reported them. What
// it did not report is estimated by the sizes of request and answer: a program
// does not get tokens for nothing by not reading the end of an answer.
func (r *answerReader) end(requestBytes int64) (_ pricing.Tokens, reported bool) {
	if !r.streamed && !r.skip {
		r.add(r.line)
		r.name(r.line)
		r.wire.said(r.line, &r.said)
	}
	if r.final {
		return r.sum, true
	}
	t := r.sum
	if t.Input+t.CacheRead+t.CacheWrite == 0 {
		t.Input = estimatedTokens(requestBytes)
	}
	const bytesPerToken = 32 // of a stream of events, most of which is JSON around the text
	t.Output = max(t.Output, r.bytes/bytesPerToken)
	return t, false
}

// estimatedTokens of a text: about four bytes each in English and code.
func estimatedTokens(bytes int64) int64 { return bytes / 4 }
