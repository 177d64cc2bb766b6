package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
)

// formats are the wire formats with a request each.
var formats = []struct {
	api          gateway.API
	start        func(*testing.T, ...modeltest.Reply) *modeltest.Model
	base, path   string // of the model's URL, and of a request
	ask          string // %v is whether it is streamed
	authorized   string // the header with the key
	cacheWritten int64  // 0 where the format does not have it
}{
	{
		gateway.Anthropic, modeltest.Messages, "", "/v1/messages",
		`{"model":"inside","stream":%v,"messages":[{"role":"user","content":"Hello"}]}`, "X-Api-Key: " + key, 200,
	},
	{
		gateway.OpenAI, modeltest.Chat, "/v1", "/v1/chat/completions",
		`{"model":"inside","stream":%v,"messages":[{"role":"user","content":"Hello"}]}`, "Authorization: Bearer " + key, 0,
	},
	{
		gateway.Google, modeltest.Google, "", "/v1beta/models/" + pricedModel + ":generateContent",
		`{"stream":%v,"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, "X-Goog-Api-Key: " + key, 0,
	},
	{
		gateway.Responses, modeltest.Responses, "/v1", "/v1/responses",
		`{"model":"inside","stream":%v,"input":[{"type":"message","role":"user"}]}`, "Authorization: Bearer " + key, 0,
	},
}

// TestExchange asks each kind of model, streamed and in one piece: the answer is
// passed on, the usage is counted and priced, and the model was asked with its own
// key for its own model.
func TestExchange(t *testing.T) {
	for _, f := range formats {
		for _, streamed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/streamed=%v", f.api, streamed), func(t *testing.T) {
				t.Parallel()
				model := f.start(t, modeltest.Reply{Text: "TURMERIC", Usage: modeltest.Tokens{
					Input: 1000, Output: 50, CacheRead: 3000, CacheWrite: f.cacheWritten,
				}})
				run := gateway.NewMeter(gateway.Budget{Requests: 10}, gateway.Usage{}, nil)
				trial := gateway.NewMeter(gateway.Budget{Tokens: 1_000_000}, gateway.Usage{}, run)
				p := open(t, options{api: f.api, url: model.URL + f.base, meter: trial})
				status, answer := p.post(f.path, fmt.Sprintf(f.ask, streamed))
				if status != http.StatusOK || !strings.Contains(answer, "TURMERIC") {
					t.Fatalf("status %d: %s", status, answer)
				}
				if strings.HasPrefix(answer, "{") == streamed {
					t.Errorf("streamed is not %v: %s", streamed, answer)
				}
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				want := gateway.Usage{
					Requests: 1, Tokens: pricing.Tokens{Input: 1000, Output: 50, CacheRead: 3000, CacheWrite: f.cacheWritten},
					Micros: 3000 + 750 + 900 + f.cacheWritten*375/100,
				}
				for name, m := range map[string]*gateway.Meter{"trial": trial, "run": run} {
					if diff := cmp.Diff(want, m.Used()); diff != "" {
						t.Errorf("usage of the %s (-want +got):\n%s", name, diff)
					}
				}
				requests := model.Requests()
				if len(requests) != 1 {
					t.Fatalf("the model got %d requests, want 1", len(requests))
				}
				wantClean(t, requests[0], f.path, f.authorized)
				record := p.Record()
				if len(record) != 1 || !strings.Contains(record[0].Request, "Hello") && f.api != gateway.Responses ||
					!strings.Contains(record[0].Answer, "TURMERIC") || record[0].Status != http.StatusOK {
					t.Errorf("record %+v", record)
				}
			})
		}
	}
}

// wantClean checks that an upstream request has the model's key and name, and
// nothing of the program's but the conversation.
func wantClean(t *testing.T, r modeltest.Request, path, authorized string) {
	t.Helper()
	if r.URI != path || r.Method != http.MethodPost {
		t.Errorf("the model was asked for %s %s", r.Method, r.URI)
	}
	var header strings.Builder
	_ = r.Header.Write(&header) // into memory
	if !strings.Contains(header.String(), authorized) || strings.Contains(header.String(), "inside") {
		t.Errorf("the headers are\n%s", &header)
	}
	var body struct{ Model string }
	inPath := strings.Contains(path, pricedModel)
	if err := json.Unmarshal(r.Body, &body); err != nil || body.Model != pricedModel && !inPath {
		t.Errorf("the body is %s (%v)", r.Body, err)
	}
}

// TestStreamIsNotBuffered reads each event before the model sends the next one.
func TestStreamIsNotBuffered(t *testing.T) {
	step := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 3 {
			_, _ = fmt.Fprintf(w, "data: {\"n\":%d}\n\n", n)
			w.(http.Flusher).Flush()
			<-step
		}
	}))
	defer model.Close()
	p := open(t, options{api: gateway.Anthropic, url: model.URL})
	resp := p.send("/v1/messages", `{"stream":true}`)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for n := range 3 {
		line, err := lines.ReadString('\n')
		if want := fmt.Sprintf("data: {\"n\":%d}\n", n); err != nil || line != want {
			t.Fatalf("read %q (%v), want %q", line, err, want)
		}
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		step <- struct{}{}
	}
}

// TestRequestIsAdjusted: what the server would do for the program, or without the
// gateway's knowledge, is removed.
func TestRequestIsAdjusted(t *testing.T) {
	for _, test := range []struct {
		name, api, path, ask, want string
	}{
		{
			"tools of the server", "anthropic", "/v1/messages",
			`{"mcp_servers":[{"url":"https://evil.example"}],"tools":[{"name":"Bash","input_schema":{}},` +
				`{"type":"web_fetch_20250910","name":"web_fetch"},{"type":"bash_20250124","name":"bash"}]}`,
			`{"model":"claude-sonnet-4-5","tools":[{"name":"Bash","input_schema":{}},{"type":"bash_20250124","name":"bash"}]}`,
		},
		{
			"duplicate fields", "anthropic", "/v1/messages",
			`{"model":"a","model":"b","tools":[],"tools":[{"type":"web_search_20250305"}]}`,
			`{"model":"claude-sonnet-4-5","tools":[]}`,
		},
		{
			"usage of a stream", "openai", "/v1/chat/completions",
			`{"stream":true,"stream_options":{"include_usage":false},"web_search_options":{}}`,
			`{"model":"claude-sonnet-4-5","stream":true,"stream_options":{"include_usage":true}}`,
		},
		{
			"tools of Google", "gemini", "/v1beta/models/other:generateContent",
			`{"model":"other","cachedContent":"x","tools":[{"googleSearch":{}},` +
				`{"functionDeclarations":[{"name":"run"}],"urlContext":{}}]}`,
			`{"tools":[{"functionDeclarations":[{"name":"run"}]}]}`,
		},
		{
			"work in the background", "responses", "/v1/responses",
			`{"background":true,"store":true,"previous_response_id":"resp_other","tools":[{"type":"web_search"},` +
				`{"type":"mcp","server_url":"https://evil.example"},{"type":"function","name":"exec_command"}]}`,
			`{"model":"claude-sonnet-4-5","store":false,"tools":[{"type":"function","name":"exec_command"}]}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = bufio.NewReader(r.Body).WriteTo(&got)
			}))
			defer model.Close()
			p := open(t, options{api: gateway.API(test.api), url: model.URL + "/v1"})
			if status, answer := p.post(test.path, test.ask); status != http.StatusOK {
				t.Fatalf("status %d: %s", status, answer)
			}
			if got.String() != test.want {
				t.Errorf("the model got  %s\nwant           %s", &got, test.want)
			}
		})
	}
}

// TestModels answers the list of models without asking the server.
func TestModels(t *testing.T) {
	for _, f := range formats {
		model := f.start(t)
		p := open(t, options{api: f.api, url: model.URL})
		resp, err := p.http.Get("http://127.0.0.1/v1/models?client_version=1")
		if err != nil {
			t.Fatal(err)
		}
		list, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if !json.Valid(list) || !strings.Contains(string(list), pricedModel) || len(model.Requests()) != 0 {
			t.Errorf("%s: models %s, %d requests", f.api, list, len(model.Requests()))
		}
	}
}

// TestURLs: a base URL may have what the judge's may have.
func TestURLs(t *testing.T) {
	for _, test := range []struct {
		api              gateway.API
		url, asked, want string
	}{
		{gateway.Anthropic, "", "/v1/messages", "/v1/messages"},
		{gateway.Anthropic, "/v1/", "/v1/messages/count_tokens", "/v1/messages/count_tokens"},
		{gateway.Anthropic, "/proxy/v1/messages", "/v1/messages", "/proxy/v1/messages"},
		{gateway.OpenAI, "/openai/v4", "/v1/chat/completions", "/openai/v4/chat/completions"},
		{gateway.OpenAI, "/v1/chat/completions", "/v1/chat/completions", "/v1/chat/completions"},
		{gateway.Responses, "/v1", "/v1/responses", "/v1/responses"},
		{gateway.Anthropic, "/v1", "/v1/messages?beta=true", "/v1/messages?beta=true"},
		{
			gateway.Google, "/v1beta", "/v1beta/models/other:streamGenerateContent?alt=sse",
			"/v1beta/models/claude-sonnet-4-5:streamGenerateContent?alt=sse",
		},
		{gateway.Google, "", "/v1beta/models/other:countTokens", "/v1beta/models/claude-sonnet-4-5:countTokens"},
		{gateway.Google, "", "/v1beta/models/other:batchEmbedContents", ""},
		{gateway.Google, "", "/v1beta/models/a/../b:generateContent", ""},
	} {
		var got string
		model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI }))
		open(t, options{api: test.api, url: model.URL + test.url}).post(test.asked, "{}")
		model.Close()
		if got != test.want {
			t.Errorf("%s %q: asked for %q, want %q", test.api, test.url, got, test.want)
		}
	}
}

// TestSettings: what is wrong with a model is said with the setting's name.
func TestSettings(t *testing.T) {
	for want, m := range map[string]gateway.Model{
		"model-api of x must be": {Name: "x", API: "soap", URL: "http://127.0.0.1"},
		"model x: ":              {Name: "x", API: gateway.OpenAI, URL: "ftp://127.0.0.1"},
		"model-key of x must be": {Name: "x", API: gateway.OpenAI, URL: "http://127.0.0.1", Key: "a\nb"},
	} {
		if _, err := gateway.New(gateway.Options{Models: []gateway.Model{m}}); !fault.Is(err, fault.Malformed) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %s", m, err, want)
		}
	}
	g := newGateway(t, gateway.Model{Name: "a", API: gateway.Anthropic, URL: "http://127.0.0.1"},
		gateway.Model{Name: "b", API: gateway.OpenAI, URL: "http://127.0.0.1"})
	if diff := cmp.Diff([]string{"b"}, g.Models(gateway.OpenAI, gateway.Responses)); diff != "" {
		t.Error(diff)
	}
	if _, err := g.Open(socketDir(t), gateway.Conversation{Model: "c"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("unknown model: %v", err)
	}
}

// TestAnswers reads what the model says, streamed and in one piece, in each wire
// format.
func TestAnswers(t *testing.T) {
	want := []gateway.Answer{{Model: pricedModel, Text: "I look.", Calls: []gateway.ToolCall{
		{Tool: "Skill", Input: `{"skill":"pdf"}`}, {Tool: "Bash", Input: `{"command":"ls \"a b\""}`},
	}}}
	for _, f := range formats {
		for _, streamed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/streamed=%v", f.api, streamed), func(t *testing.T) {
				t.Parallel()
				model := f.start(t, modeltest.Reply{Text: "I look.", Calls: []modeltest.Call{
					{Tool: "Skill", Input: modeltest.Object{"skill": "pdf"}},
					{Tool: "Bash", Input: modeltest.Object{"command": `ls "a b"`}},
				}})
				p := open(t, options{api: f.api, url: model.URL + f.base})
				if status, answer := p.post(f.path, fmt.Sprintf(f.ask, streamed)); status != http.StatusOK {
					t.Fatalf("status %d: %s", status, answer)
				}
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
				got := p.Answers()
				if len(got) != 1 || got[0].At.IsZero() || got[0].Took <= 0 || got[0].Calls[0].ID == "" {
					t.Errorf("the answer lacks its time, or its calls lack their ids: %+v", got)
				}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(gateway.Answer{}, "At", "Took", "Tokens", "Micros"),
					cmpopts.IgnoreFields(gateway.ToolCall{}, "ID")); diff != "" {
					t.Errorf("answers (-want +got):\n%s", diff)
				}
			})
		}
	}
}
