package judge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

func TestNewNamesTheSetting(t *testing.T) {
	for name, c := range map[string]struct {
		o    judge.Options
		want string
	}{
		"no api":           {judge.Options{}, "--judge-api"},
		"unknown api":      {judge.Options{API: "gopher"}, "--judge-api"},
		"openai, url":      {judge.Options{API: judge.OpenAI, Model: "m"}, "--judge-url"},
		"anthropic, url":   {judge.Options{API: judge.Anthropic, Model: "m"}, "--judge-url"},
		"bad url":          {judge.Options{API: judge.OpenAI, Model: "m", URL: "ftp://x.example"}, "--judge-url"},
		"url with a user":  {judge.Options{API: judge.OpenAI, Model: "m", URL: "http://u:" + key + "@x.example"}, "--judge-url"},
		"openai, model":    {judge.Options{API: judge.OpenAI, URL: "http://x.example/v1"}, "--judge-model"},
		"anthropic, model": {judge.Options{API: judge.Anthropic, URL: "http://x.example"}, "--judge-model"},
		"key of two lines": {judge.Options{API: judge.OpenAI, URL: "http://x.example/v1", Model: "m", Key: key + "\nx"}, "--judge-key"},
		"negative":         {judge.Options{API: judge.OpenAI, URL: "http://x.example/v1", Model: "m", Concurrency: -1}, "limits"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := judge.New(c.o)
			if !fault.Is(err, fault.Malformed) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) {
				t.Errorf("got %v, want a Malformed error that names %s and not the key", err, c.want)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	s := judgetest.New(t, nil)
	j, _ := newJudge(t, s, judge.Options{API: judge.Anthropic, Model: "claude-test"})
	want := judge.Description{EvalJudge: api.EvalJudge{API: "anthropic", Model: "claude-test", PromptVersion: "route-1,grade-2,answer-1"}}
	if got := j.Describe(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	builtin, err := judge.New(judge.Options{API: judge.Builtin})
	if err != nil {
		t.Fatal(err)
	}
	want = judge.Description{EvalJudge: api.EvalJudge{API: "builtin", Model: "bm25-1", PromptVersion: "bm25-1"}, RouteOnly: true}
	if got := builtin.Describe(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestURLs is about the base URLs that people write.
func TestURLs(t *testing.T) {
	for _, c := range []struct{ api, suffix, path string }{
		{judge.OpenAI, "/v1", "/v1/chat/completions"},
		{judge.OpenAI, "/v1/", "/v1/chat/completions"},
		{judge.OpenAI, "/v1/chat/completions", "/v1/chat/completions"},
		{judge.OpenAI, "/v1?api-version=1", "/v1/chat/completions"},
		{judge.Anthropic, "", "/v1/messages"},
		{judge.Anthropic, "/", "/v1/messages"},
		{judge.Anthropic, "/v1", "/v1/messages"},
		{judge.Anthropic, "/v1/messages", "/v1/messages"},
	} {
		t.Run(c.api+c.suffix, func(t *testing.T) {
			s := judgetest.New(t, nil)
			// Without a client of the test's own: loopback must be allowed.
			j, err := judge.New(judge.Options{API: c.api, URL: s.URL(judge.Anthropic) + c.suffix, Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := j.Answer(t.Context(), judge.AnswerRequest{Prompt: "hello"}); err != nil {
				t.Fatal(err)
			}
			if got := s.Requests()[0].Path; got != c.path {
				t.Errorf("got %s, want %s", got, c.path)
			}
		})
	}
}

// TestKeyIsNotShown uses a server that repeats the key wherever it can.
func TestKeyIsNotShown(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		for _, status := range []int{400, 401, 403, 404, 500} {
			s := judgetest.New(t, func(judgetest.Request) judgetest.Reply {
				return judgetest.Fail(status, "bad key "+key+" in Bearer "+key)
			})
			j, _ := newJudge(t, s, judge.Options{API: api})
			_, err := j.Complete(t.Context(), question())
			if status == 401 && strings.Contains(err.Error(), "bad key") {
				t.Errorf("got %v: a refused key may be repeated in parts", err)
			}
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), key) {
				t.Errorf("%d: got %v, want an error without the key", status, err)
			}
		}
		s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Text("your key is " + key) })
		j, _ := newJudge(t, s, judge.Options{API: api})
		_, err := j.Complete(t.Context(), question())
		if e := wantCode(t, err, judge.Unusable); strings.Contains(fmt.Sprintf("%+v", e.Record), key) || e.Record.Raw == "" {
			t.Errorf("got the record %+v, want the answer without the key", e.Record)
		}
	})
}
