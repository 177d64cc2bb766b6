package gateway_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
)

// withResults are second requests: $1 and $2 are the ids of the calls. The first one
// failed where the format can say so.
var withResults = map[gateway.API]string{
	gateway.Anthropic: `{"messages":[{"role":"user","content":"Hello"},
		{"role":"assistant","content":[{"type":"tool_use","id":"$1"},{"type":"tool_use","id":"$2"}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"$1","content":"no such skill","is_error":true},
			{"type":"tool_result","tool_use_id":"$2","content":[{"type":"text","text":"a b"},{"type":"image"}]}]}]}`,
	gateway.OpenAI: `{"messages":[{"role":"user","content":"Hello"},{"role":"assistant","tool_calls":[]},
		{"role":"tool","tool_call_id":"$1","content":"no such skill"},
		{"role":"tool","tool_call_id":"$2","content":[{"type":"text","text":"a b"}]}]}`,
	gateway.Responses: `{"input":[{"type":"message","role":"user"},{"type":"function_call","call_id":"$1"},
		{"type":"function_call_output","call_id":"$1","output":"no such skill"},{"type":"function_call","call_id":"$2"},
		{"type":"function_call_output","call_id":"$2","output":"a b"}]}`,
	gateway.Google: `{"contents":[{"role":"user","parts":[{"text":"Hello"}]},
		{"role":"model","parts":[{"functionCall":{"name":"Skill","args":{"skill":"pdf"}}},{"functionCall":{"name":"Bash","args":{"b":1,"a":2}}}]},
		{"role":"user","parts":[{"functionResponse":{"name":"Skill","response":{"error":"no such skill"}}},
			{"functionResponse":{"name":"Bash","response":{"output":"a b"}}}]}]}`,
}

// TestResults reads what the program sent back for the calls of tools, in each wire
// format. The third request repeats it, which changes nothing.
func TestResults(t *testing.T) {
	for _, f := range formats {
		t.Run(string(f.api), func(t *testing.T) {
			t.Parallel()
			model := f.start(t, modeltest.Reply{Calls: []modeltest.Call{
				{Tool: "Skill", Input: modeltest.Object{"skill": "pdf"}}, {Tool: "Bash", Input: modeltest.Object{"a": 2, "b": 1}},
			}}, modeltest.Reply{Text: "Done."}, modeltest.Reply{Text: "Done."})
			p := open(t, options{api: f.api, url: model.URL + f.base})
			p.mustPost(f.path, fmt.Sprintf(f.ask, false))
			calls := p.answers(1)[0].Calls
			body := strings.NewReplacer("$1", calls[0].ID, "$2", calls[1].ID).Replace(withResults[f.api])
			p.mustPost(f.path, body)
			p.mustPost(f.path, strings.ReplaceAll(strings.ReplaceAll(body, "a b", "changed"), "no such skill", "changed"))
			all := p.answers(3)
			first, second := all[0], all[1]
			var got []string
			for _, c := range first.Calls {
				if c.Result == nil || !c.Result.At.Equal(second.At) {
					t.Fatalf("call %s: result %+v, want that of the second request", c.Tool, c.Result)
				}
				got = append(got, fmt.Sprint(c.Tool, ": ", c.Result.Output))
			}
			if diff := cmp.Diff([]string{"Skill: no such skill", "Bash: a b"}, plain(got)); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			says := f.api == gateway.Anthropic || f.api == gateway.Google
			if first.Calls[0].Result.Failed != says || first.Calls[1].Result.Failed {
				t.Errorf("failed: %v and %v", first.Calls[0].Result.Failed, first.Calls[1].Result.Failed)
			}
		})
	}
}

// plain removes the quotes of Google's errors, which may be objects.
func plain(all []string) []string {
	for i, s := range all {
		all[i] = strings.ReplaceAll(s, `"`, "")
	}
	return all
}

// answers returns the first n answers once they are kept, which is after the program
// has read them.
func (p *program) answers(n int) []gateway.Answer {
	p.t.Helper()
	for {
		if all := p.Answers(); len(all) >= n {
			return all
		}
		if p.t.Context().Err() != nil {
			p.t.Fatal("the answers are not kept")
		}
		runtime.Gosched()
	}
}

func (p *program) mustPost(path, body string) {
	p.t.Helper()
	if status, answer := p.post(path, body); status != http.StatusOK {
		p.t.Fatalf("status %d: %s", status, answer)
	}
}

// TestManyResults sends more results than are kept, with ids as long as requests may
// have: the calls of the model are known all the same.
func TestManyResults(t *testing.T) {
	t.Parallel()
	model := modeltest.Messages(t, modeltest.Reply{Calls: []modeltest.Call{{Tool: "Bash"}}}, modeltest.Reply{Text: "Done."})
	p := open(t, options{api: gateway.Anthropic, url: model.URL})
	p.mustPost("/v1/messages", `{"messages":[{"role":"user","content":"Hello"}]}`)
	var b strings.Builder
	long := strings.Repeat("x", 1000)
	for i := range 5000 {
		fmt.Fprintf(&b, `,{"type":"tool_result","tool_use_id":"%s%d","content":"%s"}`, long, i, long)
	}
	p.mustPost("/v1/messages", `{"messages":[{"role":"user","content":[`+b.String()[1:]+`]}]}`)
	if got := p.answers(2); got[0].Calls[0].Tool != "Bash" || got[0].Calls[0].Result != nil {
		t.Errorf("answers: %+v", got)
	}
}

// TestFailures keeps the requests that were not answered.
func TestFailures(t *testing.T) {
	t.Parallel()
	p := open(t, options{api: gateway.Anthropic, url: "http://127.0.0.1:9"})
	if status, _ := p.post("/v1/messages", `{"messages":[]}`); status != http.StatusBadGateway {
		t.Fatalf("status %d", status)
	}
	got := p.Failures()
	if len(got) != 1 || got[0].At.IsZero() || !strings.HasPrefix(got[0].Message, "the model cannot be reached") {
		t.Errorf("failures: %+v", got)
	}
}

func TestRedact(t *testing.T) {
	g := newGateway(t, gateway.Model{Name: "a", API: gateway.Anthropic, URL: "http://127.0.0.1", Key: key},
		gateway.Model{Name: "b", API: gateway.Anthropic, URL: "http://127.0.0.1", Key: "test"})
	if got := g.Redact("a test of " + key); got != "a test of [secret]" {
		t.Errorf("got %q", got)
	}
}
