package judge_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
)

func TestRequest(t *testing.T) {
	schema := string(question().Schema.JSON)
	for api, want := range map[string]string{
		judge.OpenAI: `{"model":"test-model","max_tokens":4096,"temperature":0,
			"messages":[{"role":"system","content":"Answer with JSON."},{"role":"user","content":"What is six times seven?"}],
			"response_format":{"type":"json_schema","json_schema":{"name":"number","strict":true,"schema":` + schema + `}}}`,
		judge.Anthropic: `{"model":"test-model","max_tokens":4096,"temperature":0,"system":"Answer with JSON.",
			"messages":[{"role":"user","content":"What is six times seven?"}],
			"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`,
	} {
		t.Run(api, func(t *testing.T) {
			s := judgetest.New(t, nil)
			s.Key = key
			s.Then(judgetest.Text(fortyTwo))
			j, _ := newJudge(t, s, judge.Options{API: api})
			if _, err := j.Complete(t.Context(), question()); err != nil {
				t.Fatal(err)
			}
			got := s.Requests()[0]
			if diff := cmp.Diff(decoded(t, want), decoded(t, string(got.Body))); diff != "" {
				t.Error(diff)
			}
			if v := got.Header.Get("Anthropic-Version"); api == judge.Anthropic && v != "2023-06-01" {
				t.Errorf("got the version %q", v)
			}
		})
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestRecord(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		s := judgetest.New(t, nil)
		s.Then(judgetest.Fail(500, "oops"), judgetest.Reply{
			Text: fortyTwo, Model: "test-model-2026-01-01", Input: 1000, Output: 50, Delay: 6 * time.Millisecond,
		})
		j, _ := newJudge(t, s, judge.Options{API: api})
		got, err := j.Complete(t.Context(), question())
		if err != nil {
			t.Fatal(err)
		}
		want := judge.Record{
			API: api, Model: "test-model-2026-01-01", PromptVersion: "test-1", SchemaVersion: "number-1", Structured: "json_schema",
			Temperature: new(0.0), RequestID: "req_test", Raw: fortyTwo,
			Usage: judge.Usage{Attempts: 2, InputTokens: 1000, OutputTokens: 50},
		}
		opts := cmp.Options{cmpopts.IgnoreFields(judge.Usage{}, "LatencyMS"), cmpopts.EquateApprox(0, 1e-12)}
		if diff := cmp.Diff(want, got.Record, opts); diff != "" {
			t.Error(diff)
		}
		if got.Record.LatencyMS < 5 {
			t.Errorf("got a latency of %d ms", got.Record.LatencyMS)
		}
	})
}

// TestUsageMissing is about servers that count nothing.
func TestUsageMissing(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return judgetest.Reply{Text: fortyTwo} })
		j, _ := newJudge(t, s, judge.Options{API: api})
		got, err := j.Complete(t.Context(), question())
		if err != nil || got.Record.InputTokens != 0 || got.Text != fortyTwo {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestAnswersThatCanBeRead(t *testing.T) {
	for name, text := range map[string]string{
		"plain":         fortyTwo,
		"spaces":        "\n\n  " + fortyTwo + " \n",
		"fence":         "```json\n" + fortyTwo + "\n```",
		"talk":          "Sure! Here it is:\n" + fortyTwo + "\nAnything else? {}",
		"thoughts":      "<think>Is it {\"n\":7}? No.</think>\n" + fortyTwo,
		"unknown keys":  `{"n":42,"mood":"good"}`,
		"braces inside": `{"x":"} \" {","n":42}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := judgetest.New(t, nil)
			s.Then(judgetest.Text(text))
			j, _ := newJudge(t, s, judge.Options{})
			got, err := j.Complete(t.Context(), question())
			if err != nil || got.Record.Repaired || !strings.Contains(got.Text, `"n":42`) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// unusable are the answers that no verdict can be read from.
func unusable() map[string]judgetest.Reply {
	return map[string]judgetest.Reply{
		"empty":         judgetest.Text(""),
		"talk":          judgetest.Text("forty-two, I would say"),
		"unbalanced":    judgetest.Text(`{"n":42`),
		"no JSON":       judgetest.Text(`{n: 42}`),
		"wrong type":    judgetest.Text(`{"n":"42"}`),
		"missing key":   judgetest.Text(`{"m":42}`),
		"other object":  judgetest.Text(`{"x":{}} ` + fortyTwo),
		"endless":       judgetest.Text("<think>hm"),
		"length":        {Text: fortyTwo, Finish: "length"},
		"filter":        {Text: fortyTwo, Finish: "content_filter"},
		"refusal":       {Finish: "refusal"},
		"garbage":       judgetest.Garbage(),
		"other JSON":    {Body: []byte(`{"choices":[],"type":"error"}`)},
		"huge envelope": {Body: []byte(strings.Repeat("x", 5<<20))},
	}
}

func TestRepair(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		for name, bad := range unusable() {
			t.Run(name, func(t *testing.T) {
				s := judgetest.New(t, nil)
				s.Then(bad, judgetest.Text(fortyTwo))
				j, clock := newJudge(t, s, judge.Options{API: api})
				got, err := j.Complete(t.Context(), question())
				if err != nil || got.Text != fortyTwo || !got.Record.Repaired || got.Record.Attempts != 2 {
					t.Fatalf("got %+v, %v", got, err)
				}
				sent := s.Requests()[1]
				if !strings.Contains(sent.System, "could not be used") || !strings.Contains(sent.System, string(question().Schema.JSON)) {
					t.Errorf("got the system prompt %q, want the problem and the schema", sent.System)
				}
				if sent.User != question().User || strings.Contains(sent.System, "forty-two") {
					t.Errorf("the repair changes the question or repeats the answer: %q, %q", sent.System, sent.User)
				}
				if limit := field(sent, "max_tokens"); (name == "length") != (limit == "8192") {
					t.Errorf("got the limit %s", limit)
				}
				if waits := clock.waits(); len(waits) != 0 {
					t.Errorf("waited %v", waits)
				}
			})
		}
	})
}

func TestUnusableTwice(t *testing.T) {
	each(t, func(t *testing.T, api string) {
		for name, bad := range unusable() {
			t.Run(name, func(t *testing.T) {
				s := judgetest.New(t, func(judgetest.Request) judgetest.Reply { return bad })
				j, _ := newJudge(t, s, judge.Options{API: api})
				_, err := j.Complete(t.Context(), question())
				e := wantCode(t, err, judge.Unusable)
				if n := len(s.Requests()); n != 2 || e.Record.Attempts != 2 || !e.Record.Repaired || e.Stop || judge.MustStop(err) {
					t.Errorf("got %+v after %d requests, want it after 2", e, n)
				}
			})
		}
	})
}

// TestRawIsBounded also cuts in the middle of a character.
func TestRawIsBounded(t *testing.T) {
	s := judgetest.New(t, nil)
	s.Then(judgetest.Text("x" + strings.Repeat("ä", 10_000)))
	j, _ := newJudge(t, s, judge.Options{})
	got, err := j.Complete(t.Context(), judge.Prompt{User: "x"})
	if err != nil || len(got.Record.Raw) != 4095 || len(got.Text) != 20_001 {
		t.Errorf("got %d of %d bytes, %v", len(got.Record.Raw), len(got.Text), err)
	}
}

func TestJSONAnswers(t *testing.T) {
	for text, want := range map[string][]string{
		`{}`:                      {`{}`},
		`a {"b":{"c":"}"}} d {}`:  {`{"b":{"c":"}"}}`, `{"c":"}"}`, `{}`},
		`{"a":"\\"} "}`:           {`{"a":"\\"}`},
		`{"a":"\""}`:              {`{"a":"\""}`},
		`{x} [1]`:                 {`[1]`},
		`{"a":1}</think>{"b":2}`:  {`{"b":2}`},
		`{"a":"</think>"}`:        {`{"a":"</think>"}`},
		``:                        nil,
		`}{`:                      nil,
		`{"a":"`:                  nil,
		strings.Repeat("{", 9999): nil,
	} {
		if diff := cmp.Diff(want, slices.Collect(judge.JSONAnswers(text))); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
