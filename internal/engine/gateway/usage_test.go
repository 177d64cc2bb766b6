package gateway

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
)

// TestAnsweredModel has the names of models in all formats, streamed and whole.
func TestAnsweredModel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wire     wire
		streamed bool
		answer   string
	}{
		{messages{}, true, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m-1\",\"usage\":{}}}\n\n"},
		{messages{}, false, `{"type":"message","model":"m-1","content":[{"type":"text","text":"\"model\": x"}]}`},
		{chat{}, true, "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"model\\\"\"}}]}\n\ndata: {\"model\":\"m-1\",\"choices\":[]}\n\n"},
		{chat{}, false, `{"model":"m-1\n","choices":[{"message":{"content":"hello"}}]}`},
		{responses{}, true, "data: {\"type\":\"response.created\",\"response\":{\"model\":\"m-1\"}}\n\n"},
		{google{}, false, `{"candidates":[],"modelVersion":"m-1"}`},
	} {
		contentType := "application/json"
		if c.streamed {
			contentType = "text/event-stream"
		}
		r := newAnswerReader(c.wire, contentType)
		if _, err := r.Write([]byte(c.answer)); err != nil {
			t.Fatal(err)
		}
		r.end(100)
		if r.model != "m-1" {
			t.Errorf("%T answers as %q, want m-1: %s", c.wire, r.model, c.answer)
		}
	}
}

// FuzzUsage: an answer reports the same usage however it is cut into parts, and
// never a negative one.
func FuzzUsage(f *testing.F) {
	f.Add([]byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n"+
		"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n"), 10, true)
	f.Add([]byte(`{"usage":{"prompt_tokens":10,"completion_tokens":-2,"prompt_tokens_details":{"cached_tokens":99}}}`), 3, false)
	f.Add([]byte(`data: {"response":{"usage":{"input_tokens":1e3,"input_tokens_details":{"cached_tokens":-5}}}}`+"\n"), 1, true)
	f.Fuzz(func(t *testing.T, answer []byte, at int, streamed bool) {
		at = max(0, min(at, len(answer)))
		contentType := "application/json"
		if streamed {
			contentType = "text/event-stream"
		}
		for _, w := range []wire{messages{}, chat{}, responses{}, google{}} {
			var said []Answer
			read := func(parts ...[]byte) (pricing.Tokens, bool) {
				r := newAnswerReader(w, contentType)
				for _, part := range parts {
					if n, err := r.Write(part); n != len(part) || err != nil {
						t.Fatal(n, err)
					}
				}
				used, reported := r.end(100)
				said = append(said, r.said.answer())
				return used, reported
			}
			whole, reported := read(answer)
			if cut, also := read(bytes.Clone(answer[:at]), answer[at:]); cut != whole || also != reported {
				t.Errorf("%T: %+v %v in two parts, %+v %v in one", w, cut, also, whole, reported)
			}
			if diff := cmp.Diff(said[0], said[1]); diff != "" {
				t.Errorf("%T: in one part and in two (- one, + two):\n%s", w, diff)
			}
			if min(whole.Input, whole.Output, whole.CacheRead, whole.CacheWrite, whole.CacheWriteHour) < 0 {
				t.Errorf("%T: %+v", w, whole)
			}
		}
	})
}
