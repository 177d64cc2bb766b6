package judge

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// chat is the wire format of OpenAI's chat completions.
type chat struct{}

func (chat) endpoint(base *url.URL) *url.URL {
	if strings.HasSuffix(strings.TrimRight(base.Path, "/"), "/chat/completions") {
		return base
	}
	return base.JoinPath("chat/completions")
}

func (chat) header(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func (chat) outputModes() []string { return []string{jsonSchema, jsonObject, none} }

// tokenLimitNames begins with the old name: compatible servers ignore the new
// one silently, which would leave answers without a limit, whereas models that
// need the new one refuse the old one.
func (chat) tokenLimitNames() []string { return []string{"max_tokens", "max_completion_tokens"} }

// body leaves out every parameter that the server has refused before. The schema is strict: OpenAI
// then constrains the sampling to it.
func (c chat) body(q call) any {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	all := []message{{"user", q.user}}
	if q.system != "" {
		all = append([]message{{"system", q.system}}, all...)
	}
	body := map[string]any{
		"model":    q.model,
		"messages": all,
		c.tokenLimitNames()[q.features.tokenLimitName]: q.maxTokens,
	}
	if q.features.temperature {
		body["temperature"] = temperature
	}
	if q.schema == nil {
		return body
	}
	switch q.features.structured(c) {
	case jsonSchema:
		body["response_format"] = map[string]any{"type": jsonSchema, jsonSchema: map[string]any{
			"name": q.schema.Name, "schema": q.schema.JSON, "strict": true,
		}}
	case jsonObject:
		body["response_format"] = map[string]any{"type": jsonObject}
	}
	return body
}

func (chat) read(body []byte) reply {
	var answer struct {
		Model   string `json:"model"`
		Choices []struct {
			Message struct {
				Content textParts `json:"content"`
				Refusal *string   `json:"refusal"`
			} `json:"message"`
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			PromptTokens     int64 `json:"prompt_tokens"`
			CompletionTokens int64 `json:"completion_tokens"`
			Details          struct {
				CachedTokens int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Choices) == 0 {
		return reply{problem: "the server's answer is not a chat completion"}
	}
	first := answer.Choices[0]
	r := reply{
		model: answer.Model, text: string(first.Message.Content),
		usage: Usage{
			InputTokens: answer.Usage.PromptTokens, OutputTokens: answer.Usage.CompletionTokens,
			CacheReadTokens: answer.Usage.Details.CachedTokens,
		}.valid(),
	}
	// A refusal is read before the finish reason: it arrives with "stop".
	switch {
	case first.Message.Refusal != nil && *first.Message.Refusal != "":
		r.problem = refusedToAnswer
	case first.FinishReason == "length":
		r.problem, r.truncated = truncatedAnswer, true
	case first.FinishReason == "content_filter":
		r.problem = filteredAnswer
	case r.text == "":
		r.problem = emptyAnswer
	}
	return r
}

// textParts is a text that some servers send as a list of parts, e.g.
// [{"type": "text", "text": "..."}]. Parts of other types are left out.
type textParts string

// UnmarshalJSON parses a string, a list of parts, or null.
func (p *textParts) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, (*string)(p)) == nil {
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		if part.Type == "text" {
			*p += textParts(part.Text)
		}
	}
	return nil
}

// Responses that are not an answer.
const (
	refusedToAnswer problem = "the model refused to answer"
	truncatedAnswer problem = "the answer was cut off because it was too long"
	filteredAnswer  problem = "the answer was withheld by the server's content filter"
	emptyAnswer     problem = "the answer was empty"
)
