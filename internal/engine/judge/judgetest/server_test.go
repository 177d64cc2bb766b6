package judgetest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// post sends a body as it is, with the headers that the format wants.
func post(t *testing.T, s *judgetest.Server, api, body string) (int, string) {
	t.Helper()
	path := "/chat/completions"
	if api == judgetest.Anthropic {
		path = "/v1/messages"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL(api)+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.Header.Set("Authorization", "Bearer good")
	req.Header.Set("X-Api-Key", "good")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestRefusesWhatTheRealOnesDo keeps the server from being kinder than they are.
func TestRefusesWhatTheRealOnesDo(t *testing.T) {
	const schema = `{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer"}}}`
	loose := strings.Replace(schema, `"required":["n"],`, "", 1)
	format := func(name, schema string) string {
		return `{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema",` +
			`"json_schema":{"name":"` + name + `","strict":true,"schema":` + schema + `}}}`
	}
	for _, c := range []struct{ api, name, body, want string }{
		{judgetest.OpenAI, "good", format("n", schema), ""},
		{judgetest.OpenAI, "not JSON", `{`, "could not parse the JSON body"},
		{judgetest.OpenAI, "no model", `{"messages":[{"role":"user","content":"x"}]}`, "you must provide a model parameter"},
		{judgetest.OpenAI, "no messages", `{"model":"m","messages":[]}`, "empty array"},
		{judgetest.OpenAI, "role", `{"model":"m","messages":[{"role":"human","content":"x"}]}`, "Invalid value: 'human'"},
		{judgetest.OpenAI, "both limits", `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1,"max_completion_tokens":1}`, "at the same time"},
		{judgetest.OpenAI, "unknown field", `{"model":"m","messages":[{"role":"user","content":"x"}],"system":"y"}`, "Unrecognized request argument supplied: system"},
		{judgetest.OpenAI, "json_object without the word", `{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_object"}}`, "must contain the word 'json'"},
		{judgetest.OpenAI, "schema's name", format("a b", schema), "response_format.json_schema.name"},
		{judgetest.OpenAI, "loose schema", format("n", loose), "'required' is required"},
		{judgetest.OpenAI, "unsupported", `{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":0}`, `"param":"temperature"`},
		{judgetest.Anthropic, "good", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`, ""},
		{judgetest.Anthropic, "no limit", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "max_tokens: Field required"},
		{judgetest.Anthropic, "system role", `{"model":"m","max_tokens":1,"messages":[{"role":"system","content":"x"}]}`, `Unexpected role \"system\"`},
		{judgetest.Anthropic, "assistant first", `{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":"x"}]}`, "first message must use"},
		{judgetest.Anthropic, "empty", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":""}]}`, "non-empty content"},
		{judgetest.Anthropic, "unknown field", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"response_format":{}}`, "response_format: Extra inputs are not permitted"},
		{judgetest.Anthropic, "loose schema", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"output_config":{"format":{"type":"json_schema","schema":` + loose + `}}}`, "output_config.format.schema"},
		{judgetest.Anthropic, "unsupported", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"temperature":0}`, "`temperature` is deprecated"},
	} {
		t.Run(c.api+" "+c.name, func(t *testing.T) {
			s := judgetest.New(t, nil)
			s.Key, s.Refuse = "good", []string{"temperature"}
			status, body := post(t, s, c.api, c.body)
			if c.want == "" && status == http.StatusOK {
				return
			}
			if status != http.StatusBadRequest || !strings.Contains(body, c.want) || !strings.Contains(body, "invalid_request_error") {
				t.Errorf("got %d %s, want 400 with %s", status, body, c.want)
			}
		})
	}
}

func TestKey(t *testing.T) {
	for api, want := range map[string]string{judgetest.OpenAI: "invalid_api_key", judgetest.Anthropic: "authentication_error"} {
		s := judgetest.New(t, nil)
		s.Key = "other"
		if status, body := post(t, s, api, `{}`); status != http.StatusUnauthorized || !strings.Contains(body, want) {
			t.Errorf("%s: got %d %s", api, status, body)
		}
	}
}

func TestScript(t *testing.T) {
	s := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
		return judgetest.Text("to " + r.User + " under " + r.System)
	})
	s.Then(judgetest.RateLimited(time.Second), judgetest.Overloaded())
	body := `{"model":"m","max_tokens":1,"system":"s","messages":[{"role":"user","content":"u"}]}`
	for _, want := range []struct {
		status int
		text   string
	}{{429, "rate_limit_error"}, {529, "overloaded_error"}, {200, "to u under s"}, {200, "to u under s"}} {
		if status, text := post(t, s, judgetest.Anthropic, body); status != want.status || !strings.Contains(text, want.text) {
			t.Errorf("got %d %s, want %d %s", status, text, want.status, want.text)
		}
	}
	if all := s.Requests(); len(all) != 4 || all[3].Model != "m" || all[3].API != judgetest.Anthropic {
		t.Errorf("got %+v", all)
	}
}
