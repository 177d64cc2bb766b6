package judge_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
)

// corpus is a catalogue with queries and the skill that each should trigger.
type corpus struct {
	Name    string
	Skills  []judge.Skill
	Queries []struct{ Query, Skill string }
}

func readCorpus(t *testing.T) (all []corpus) {
	t.Helper()
	text, err := os.ReadFile("testdata/corpus.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// routeBuiltin tests the skill that the catalogue begins with.
func routeBuiltin(t *testing.T, catalogue []judge.Skill, query string) judge.Routing {
	t.Helper()
	j, err := judge.New(judge.Options{API: judge.Builtin})
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.Route(t.Context(), judge.RouteRequest{
		Query: query, Skill: catalogue[0], Distractors: catalogue[1:], Seed: 7, Trial: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestBuiltinRoutes(t *testing.T) {
	for _, c := range readCorpus(t) {
		for _, q := range c.Queries {
			got := routeBuiltin(t, c.Skills, q.Query)
			if got.Skill != q.Skill {
				t.Errorf("%s: %s: got %q (%s), want %q", c.Name, q.Query, got.Skill, got.Reason, q.Skill)
			}
			if got.Confidence < 0.5 || got.Confidence > 1 {
				t.Errorf("%s: got the confidence %v", q.Query, got.Confidence)
			}
		}
	}
}

func TestBuiltinIsLabelled(t *testing.T) {
	got := routeBuiltin(t, []judge.Skill{{Name: "a", Description: "b"}}, "anything")
	want := judge.Record{API: "builtin", Model: "bm25-1", PromptVersion: "bm25-1", Seed: 7, Trial: 2}
	if diff := cmp.Diff(want, got.Record); diff != "" {
		t.Error(diff)
	}
}

// TestBuiltinIsDeterministic asks in every order.
func TestBuiltinIsDeterministic(t *testing.T) {
	j, err := judge.New(judge.Options{API: judge.Builtin})
	if err != nil {
		t.Fatal(err)
	}
	all := readCorpus(t)[0]
	for _, query := range []string{all.Queries[0].Query, "report", "company formats"} {
		var first judge.Routing
		for trial := range 50 {
			got, err := j.Route(t.Context(), judge.RouteRequest{
				Query: query, Skill: all.Skills[0], Distractors: all.Skills[1:], Seed: int64(trial), Trial: trial,
			})
			if err != nil {
				t.Fatal(err)
			}
			got.Record = judge.Record{}
			if trial == 0 {
				first = got
			}
			if got != first {
				t.Fatalf("trial %d: got %+v, before %+v", trial, got, first)
			}
		}
	}
}

// TestBuiltinOnlyRoutes says what to set.
func TestBuiltinOnlyRoutes(t *testing.T) {
	j, err := judge.New(judge.Options{API: judge.Builtin})
	if err != nil {
		t.Fatal(err)
	}
	_, grade := j.Grade(t.Context(), judge.GradeRequest{Criteria: []string{"x"}})
	_, answer := j.Answer(t.Context(), judge.AnswerRequest{Prompt: "x"})
	_, complete := j.Complete(t.Context(), judge.Prompt{User: "x"})
	for _, err := range []error{grade, answer, complete} {
		e := wantCode(t, err, judge.Unavailable)
		for _, setting := range []string{"--judge-api", "--judge-url", "--judge-model"} {
			if !strings.Contains(e.Message, setting) {
				t.Errorf("got %q, want it to name %s", e.Message, setting)
			}
		}
	}
}
