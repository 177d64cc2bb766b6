package judge_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

// TestRefusedParameters drops what the endpoint refuses, once: the second call
// knows.
func TestRefusedParameters(t *testing.T) {
	for _, c := range []struct {
		name       string
		api        string
		refuse     []string
		requests   int // of the first call
		structured string
		want       []string // fields of the last request
	}{
		{"temperature", judge.OpenAI, []string{"temperature"}, 2, "json_schema", []string{"max_tokens", "response_format"}},
		{"old name", judge.OpenAI, []string{"max_tokens"}, 2, "json_schema", []string{"max_completion_tokens", "response_format", "temperature"}},
		{"schema", judge.OpenAI, []string{"json_schema"}, 2, "json_object", []string{"max_tokens", "response_format", "temperature"}},
		{"form", judge.OpenAI, []string{"response_format"}, 3, "none", []string{"max_tokens", "temperature"}},
		{"everything", judge.OpenAI, []string{"temperature", "max_tokens", "response_format"}, 5, "none", []string{"max_completion_tokens"}},
		{"temperature", judge.Anthropic, []string{"temperature"}, 2, "json_schema", []string{"max_tokens", "output_config", "system"}},
		{"form", judge.Anthropic, []string{"output_config"}, 2, "tool", []string{"max_tokens", "system", "temperature", "tool_choice", "tools"}},
		{"tools, too", judge.Anthropic, []string{"output_config", "tool_choice"}, 3, "none", []string{"max_tokens", "system", "temperature"}},
		{"everything", judge.Anthropic, []string{"temperature", "output_config", "tools"}, 4, "none", []string{"max_tokens", "system"}},
	} {
		t.Run(c.api+" "+c.name, func(t *testing.T) {
			s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Text(fortyTwo) })
			s.Refuse = c.refuse
			j, clock := newJudge(t, s, judge.Options{API: c.api})
			for i, want := range []int{c.requests, 1} {
				got, err := j.Complete(t.Context(), question())
				if err != nil || got.Record.Attempts != want || got.Record.Structured != c.structured {
					t.Fatalf("call %d: got %+v, %v, want %d requests", i+1, got.Record, err, want)
				}
				if (got.Record.Temperature == nil) != (c.refuse[0] == "temperature") {
					t.Errorf("call %d: got the temperature %v", i+1, got.Record.Temperature)
				}
			}
			all := s.Requests()
			if diff := cmp.Diff(append([]string{"messages", "model"}, c.want...), fieldsOf(all[len(all)-1]), sorted); diff != "" {
				t.Error(diff)
			}
			if len(clock.waits()) != 0 {
				t.Errorf("waited %v", clock.waits())
			}
		})
	}
}

var sorted = cmp.Transformer("set", func(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
})

func fieldsOf(r judgetest.Request) (names []string) {
	for name := range r.Fields {
		names = append(names, name)
	}
	return names
}

// TestToolAnswer reads the tool's input and not the talk beside it.
func TestToolAnswer(t *testing.T) {
	s := judgetest.New(t, func(judgetest.Request) judgetest.Reply {
		return judgetest.Reply{Text: "I will use the tool. {}", Tool: json.RawMessage(fortyTwo)}
	})
	s.Refuse = []string{"output_config"}
	j, _ := newJudge(t, s, judge.Options{API: judge.Anthropic})
	got, err := j.Complete(t.Context(), question())
	if err != nil || got.Text != fortyTwo {
		t.Errorf("got %+v, %v", got, err)
	}
	want := `{"name":"number","type":"tool"}`
	if choice := field(s.Requests()[1], "tool_choice"); choice != want {
		t.Errorf("got the choice %s, want %s", choice, want)
	}
}

// TestOtherWaysToRefuse are the words of servers that are only compatible.
func TestOtherWaysToRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		gone   string
	}{
		"llama.cpp": {400, `{"error":{"code":400,"message":"response_format type must be one of \"text\" or \"json_object\", but got: json_schema","type":"invalid_request_error"}}`, "json_schema"},
		"deepseek":  {400, `{"error":{"message":"This response_format type is unavailable now","type":"invalid_request_error"}}`, "json_schema"},
		"fastapi":   {422, `{"detail":[{"type":"extra_forbidden","loc":["body","response_format"],"msg":"Extra inputs are not permitted"}]}`, "json_schema"},
		"text":      {400, `unknown field: temperature`, "temperature"},
		"vllm":      {400, `{"object":"error","message":"max_tokens is not supported, use max_completion_tokens","code":400}`, "max_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			s := judgetest.New(t, nil)
			s.Then(judgetest.Reply{Status: c.status, Body: []byte(c.body)}, judgetest.Text(fortyTwo))
			j, _ := newJudge(t, s, judge.Options{})
			got, err := j.Complete(t.Context(), question())
			if err != nil || got.Record.Attempts != 2 {
				t.Fatalf("got %+v, %v", got, err)
			}
			r := s.Requests()[1]
			if c.gone == "json_schema" {
				if got.Record.Structured != "json_object" {
					t.Errorf("got %s", got.Record.Structured)
				}
			} else if field(r, c.gone) != "" {
				t.Errorf("%s is still there", c.gone)
			}
		})
	}
}

// TestALimitThatIsTooLarge names a parameter that is supported all the same.
func TestALimitThatIsTooLarge(t *testing.T) {
	s := judgetest.New(t, func(judgetest.Request) judgetest.Reply {
		return judgetest.Fail(http.StatusBadRequest, "'max_tokens' is too large: 4096. This model's maximum context length is 4096 tokens")
	})
	j, _ := newJudge(t, s, judge.Options{})
	_, err := j.Complete(t.Context(), question())
	if e := wantCode(t, err, judge.Rejected); e.Record.Attempts != 1 {
		t.Errorf("got %+v, want one attempt", e.Record)
	}
}

// TestTextHasNoForm keeps a refusal of a prompt without a form from costing
// the others theirs.
func TestTextHasNoForm(t *testing.T) {
	s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Text(fortyTwo) })
	s.Then(judgetest.Fail(http.StatusBadRequest, "this model needs tools"))
	j, _ := newJudge(t, s, judge.Options{API: judge.Anthropic})
	_, err := j.Answer(t.Context(), judge.AnswerRequest{Prompt: "Hi"})
	wantCode(t, err, judge.Rejected)
	got, err := j.Complete(t.Context(), question())
	if err != nil || got.Record.Structured != "json_schema" {
		t.Errorf("got %+v, %v", got.Record, err)
	}
}

// TestRefusedAtOnce downgrades once although several calls are refused.
func TestRefusedAtOnce(t *testing.T) {
	s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Text(fortyTwo) })
	s.Refuse = []string{"json_schema"}
	j, _ := newJudge(t, s, judge.Options{Concurrency: 16})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			got, err := j.Complete(t.Context(), question())
			if err != nil || got.Record.Structured != "json_object" {
				t.Errorf("got %+v, %v", got.Record, err)
			}
		})
	}
	wg.Wait()
}
