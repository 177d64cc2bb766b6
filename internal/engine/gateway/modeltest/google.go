package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
)

// google is the wire format of Google's generateContent. A request is streamed if
// its path says so, or, for tests without an agent, its body.
type google struct{}

func (google) path() string { return "" }

func (google) read(body []byte) (said int, first string, err error) {
	var in struct {
		Contents []struct {
			Role  string `json:"role"`
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return 0, "", err
	}
	for _, c := range in.Contents {
		if c.Role == "model" {
			said++
		}
		for _, p := range c.Parts {
			if said == 0 {
				first += p.Text
			}
		}
	}
	return said, first, nil
}

func (google) whole(_, model string, r Reply) Object {
	parts := []any{}
	if r.Text != "" {
		parts = append(parts, Object{"text": r.Text})
	}
	for _, call := range r.Calls {
		parts = append(parts, Object{"functionCall": Object{"name": call.Tool, "args": call.Input}})
	}
	input := r.Usage.Input + r.Usage.CacheRead
	return Object{
		"candidates":   []any{Object{"index": 0, "content": Object{"role": "model", "parts": parts}, "finishReason": "STOP"}},
		"modelVersion": model,
		"usageMetadata": Object{
			"promptTokenCount": input, "cachedContentTokenCount": r.Usage.CacheRead,
			"candidatesTokenCount": r.Usage.Output, "totalTokenCount": input + r.Usage.Output,
		},
	}
}

func (g google) stream(w io.Writer, id, model string, r Reply) {
	_, _ = fmt.Fprintf(w, "data: %s\n\n", encode(g.whole(id, model, r))) // the agent may have gone
}

func (google) failure(status int) Object {
	return Object{"error": Object{"code": status, "message": fmt.Sprintf("scripted error %d", status), "status": "UNKNOWN"}}
}
