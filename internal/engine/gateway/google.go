package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
)

// google is the wire format of Google's generateContent.
type google struct{}

func (google) trim(base *url.URL) *url.URL { return trimSuffix(base, "/v1beta") }

// googlePath matches the paths that are passed on. The model in it is replaced by the configured
// one: a program can't choose another.
var googlePath = regexp.MustCompile(
	`^/v1beta/models/[A-Za-z0-9._-]+:(generateContent|streamGenerateContent|countTokens)(?:\?(alt=sse))?$`)

func (google) route(uri, id string) (route, bool) {
	parts := googlePath.FindStringSubmatch(uri)
	if parts == nil {
		return route{}, false
	}
	return route{"/v1beta/models/" + id + ":" + parts[1], parts[2], parts[1] != "countTokens"}, true
}

func (google) headers() []string { return nil }

func (google) authorize(h http.Header, key string) {
	if key != "" {
		h.Set("X-Goog-Api-Key", key)
	}
}

// adjust removes the model, which is in the path, and every tool that Google runs itself (search,
// code execution, URL context).
func (google) adjust(fields map[string]json.RawMessage, _ string) error {
	delete(fields, "model")
	delete(fields, "cachedContent") // what others have stored
	raw, ok := fields["tools"]
	if !ok {
		return nil
	}
	type tool struct {
		Functions json.RawMessage `json:"functionDeclarations,omitempty"`
	}
	var tools, kept []tool
	if err := json.Unmarshal(raw, &tools); err != nil {
		return err
	}
	for _, t := range tools {
		if t.Functions != nil { // all others are run by the server
			kept = append(kept, t)
		}
	}
	encoded, err := json.Marshal(kept)
	fields["tools"] = encoded
	return err
}

func (google) maxOutput(fields map[string]json.RawMessage) int64 {
	var tokens, answers int64
	for _, name := range []string{"generationConfig", "generation_config"} { // both are read, and so in it
		var config map[string]json.RawMessage
		_ = json.Unmarshal(fields[name], &config) // then it limits nothing
		tokens = max(tokens, number(config["maxOutputTokens"]), number(config["max_output_tokens"]))
		answers = max(answers, number(config["candidateCount"]), number(config["candidate_count"]))
	}
	return limitedOutput(tokens, answers)
}

func (google) usage(data []byte) (pricing.Tokens, bool) {
	var in struct {
		Usage struct {
			Prompt   int64 `json:"promptTokenCount"`
			Tools    int64 `json:"toolUsePromptTokenCount"`
			Cached   int64 `json:"cachedContentTokenCount"`
			Answer   int64 `json:"candidatesTokenCount"`
			Thoughts int64 `json:"thoughtsTokenCount"`
		} `json:"usageMetadata"`
		Candidates []struct {
			FinishReason string `json:"finishReason"`
		} `json:"candidates"`
	}
	if json.Unmarshal(data, &in) != nil {
		return pricing.Tokens{}, false
	}
	u := in.Usage
	// promptTokenCount includes the cached tokens; thoughts are billed as output but not part of
	// candidatesTokenCount.
	cached := min(u.Cached, u.Prompt)
	final := len(in.Candidates) > 0 && in.Candidates[0].FinishReason != ""
	return pricing.Tokens{Input: u.Prompt - cached + u.Tools, Output: u.Answer + u.Thoughts, CacheRead: cached}, final
}

func (google) failure(f failure) any {
	status := "UNAVAILABLE"
	if f.status == http.StatusTooManyRequests {
		status = "RESOURCE_EXHAUSTED"
	}
	return object{"error": object{"code": f.status, "message": f.message, "status": status}}
}

func (google) models(id string) any {
	return object{"models": []object{{"name": "models/" + id, "displayName": id}}}
}
