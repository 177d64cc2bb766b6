package imported_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/prove/runs/imported"
)

func sample(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/aggregate-result.json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := imported.Parse(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	delta := 1.0 / 3
	want := imported.Origin{
		Tool: "claude plugin eval", Version: "2.1.325", Model: "sonnet", JudgeModel: "haiku", Threshold: 1,
		Plugins: []imported.Plugin{{Name: "greeter", Version: "1.2.0"}}, Score: 0.5 / 3, MeanDelta: &delta, CostUSD: 0.4213,
		Digest: got.Origin.Digest,
	}
	if diff := cmp.Diff(want, got.Origin); diff != "" || len(want.Digest) != 64 {
		t.Errorf("origin (-want +got):\n%s", diff)
	}
	if !got.Compared || !got.Judged || got.Duration != 95*time.Second || got.StartedAt != time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC) {
		t.Errorf("got %+v", got)
	}
	var verdicts []string
	for _, c := range got.Cases {
		for _, trial := range append(c.With, c.Without...) {
			verdicts = append(verdicts, trial.Verdict+" "+trial.Summary)
		}
	}
	if diff := cmp.Diff([]string{
		"pass all of 2 graders passed",
		"fail 1 of 2 graders failed: tone: judge votes: FAIL FAIL PASS",
		"error agent_failed: exit 1: API Error: 529 overloaded",
		"fail 1 of 1 graders failed: tone: judge votes: FAIL FAIL FAIL",
		"fail the stand-in jira aborted it at create: wrong project",
	}, verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	first := got.Cases[0].With[0]
	if first.Output != "Hello Alex!" || first.Reported.CostUSD != 0.05 || first.Reported.Turns != 2 || *first.Score != 1 ||
		first.Graders[1].Scored || !first.Graders[0].Scored {
		t.Errorf("trial %+v", first)
	}
	if failed := got.Cases[0].With[2]; failed.Score != nil {
		t.Errorf("a trial without a verdict has the score %v", *failed.Score)
	}

	// White space makes no other file of it.
	var value any
	if err := json.Unmarshal(sample(t), &value); err != nil {
		t.Fatal(err)
	}
	spaced := strings.ReplaceAll(string(sample(t)), "\n", "\n\n")
	again, err := imported.Parse([]byte(spaced))
	if err != nil || again.Origin.Digest != got.Origin.Digest {
		t.Errorf("digest %s, %v, want %s", again.Origin.Digest, err, got.Origin.Digest)
	}
}

// TestErrors: what did not pass and ended with an error, or without all of its
// graders, is no fail.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ trial, want string }{
		"timed out":         {`{"error": "timed out", "graders": [{"name": "a", "passed": false, "weight": 1}]}`, "error agent_failed: timed out"},
		"passed with error": {`{"score": 1, "passed": true, "error": "exit 1", "graders": [{"name": "a", "passed": true, "weight": 1}]}`, "pass all of 1 graders passed"},
		"cost ceiling":      {`{"skippedPaidGraders": true, "graders": [{"name": "a", "passed": false, "weight": 1}]}`, "error budget_spent: graders that cost something were skipped"},
		"not graded":        {`{"graders": []}`, "error agent_failed: it was not graded"},
		"empty error":       {`{"error": "", "graders": []}`, "error agent_failed: it ended with an error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := imported.Parse([]byte(`{"schemaVersion": 1, "claudeVersion": "2", "startedAt": "2026-11-02T10:00:00Z",
				"cases": [{"name": "n", "arms": {"with": [` + tt.trial + `]}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			trial := got.Cases[0].With[0]
			if trial.Verdict+" "+trial.Summary != tt.want || (trial.Verdict == "error") != (trial.Score == nil) {
				t.Errorf("got %+v, want %s", trial, tt.want)
			}
		})
	}
}

func TestParseRefused(t *testing.T) {
	t.Parallel()
	valid := `{"schemaVersion": 1, "claudeVersion": "2", "startedAt": "2026-11-02T10:00:00Z", "cases": [{"name": "n", "arms": {"with": [{}]}}]}`
	if _, err := imported.Parse([]byte(valid)); err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string]string{
		"no JSON":       `{`,
		"another file":  `{"cases": [{"question": "q"}]}`,
		"newer":         strings.Replace(valid, `"schemaVersion": 1`, `"schemaVersion": 2`, 1),
		"no cases":      strings.Replace(valid, `{"name": "n", "arms": {"with": [{}]}}`, "", 1),
		"no trials":     strings.Replace(valid, `{}]`, `]`, 1),
		"no start":      strings.Replace(valid, `"startedAt"`, `"began"`, 1),
		"wrong type":    strings.Replace(valid, `"name": "n"`, `"name": 5`, 1),
		"too many":      strings.Replace(valid, `{}]`, strings.Repeat("{},", 30_000)+"{}]", 1),
		"far too many":  strings.Replace(valid, `"cases": [`, `"cases": [`+strings.Repeat(`{"name": "x"},`, 500), 1),
		"no time at it": strings.Replace(valid, "2026-11-02T10:00:00Z", "yesterday", 1),
	} {
		if _, err := imported.Parse([]byte(raw)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := imported.Parse(raw)
		if err != nil {
			return
		}
		ids := map[string]bool{}
		for _, c := range got.Cases {
			id := string(c.Fields["id"])
			if ids[id] || !json.Valid(c.Fields["graders"]) {
				t.Errorf("case %s of %v", id, ids)
			}
			ids[id] = true
			for _, trial := range append(c.With, c.Without...) {
				if (trial.Verdict == "error") != (trial.Score == nil) || trial.Score != nil && !(*trial.Score >= 0 && *trial.Score <= 1) {
					t.Errorf("trial %+v", trial)
				}
			}
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
	})
}
