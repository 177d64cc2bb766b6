package evals_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/evals"
	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// listener remembers what the sources were told.
type listener struct {
	mu   sync.Mutex
	told []string
}

// Suggest implements evals.Suggester.
func (l *listener) Suggest(_ context.Context, _ *store.Tx, _, sourceID string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, sourceID)
	return nil
}

// TestFailures lets a case fail, and one that had passed.
func TestFailures(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var mu sync.Mutex
		choice := "pdf"
		model := judgetest.Model{
			Route:  func(string, []string) string { mu.Lock(); defer mu.Unlock(); return choice },
			Answer: func(string, string) string { return "nothing" },
		}
		server := judgetest.New(t, model.Respond)
		l := &listener{}
		w := newWorld(t, db, scripted(t, server, time.Minute), func(s *evals.Service) { s.Suggester = l })
		w.work()
		c := w.org("acme")
		triggers := c.create(judged(with(trigger("good"), "id", "a"), with(avoid("bad"), "id", "b")))
		prompts := c.create(deterministic(
			with(object{"prompt": "say it", "expected": "it", "case_kind": "exact_match"}, "id", "p"), exact("a", "b")))
		source := object{"source_id": "src_" + ownedID}
		first := c.finished(triggers, "subject", source, "trials", 3)
		if first["subject"].(object)["source_id"] != ownedID {
			t.Errorf("subject is %v", first["subject"])
		}
		mu.Lock()
		choice = "weather"
		mu.Unlock()
		second := c.finished(triggers, "subject", source, "trials", 3)
		third := c.finished(prompts, "subject", source)
		c.finished(triggers) // of an entry: it says nothing about the source
		c.post(runsPath+c.start(triggers, "subject", source)["id"].(string)+"/cancel", nil)
		got, err := w.evals.Failures(t.Context(), db, c.org.ID, ownedID)
		if err != nil {
			t.Fatal(err)
		}
		want := []evals.Failure{
			{SuiteID: prompts["id"].(string), RunID: third["id"].(string), CaseID: "p", Query: "say it", ShouldTrigger: true, Failed: 1, Runs: 1},
			{SuiteID: triggers["id"].(string), RunID: second["id"].(string), CaseID: "a", Query: "good", ShouldTrigger: true, Failed: 1, Runs: 2, Regression: true},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(evals.Failure{}, "LastAt")); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
		for _, f := range got {
			if time.Since(f.LastAt).Abs() > time.Minute {
				t.Errorf("last at %v", f.LastAt)
			}
		}
		other, err := w.evals.Failures(t.Context(), db, w.org("other").org.ID, ownedID)
		if err != nil || len(other) != 0 {
			t.Errorf("another organisation gets %v, %v", other, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if diff := cmp.Diff([]string{ownedID, ownedID, ownedID}, l.told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// TestSubjectGone fails the run of a skill that is not there any more.
func TestSubjectGone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, builtin(t))
		c := w.org("acme")
		run := c.start(c.create(deterministic(exact("a", "a"))))
		id := run["id"].(string)
		if _, err := db.Exec(t.Context(), `UPDATE eval_runs SET subject = REPLACE(subject, 'hash-2.0.0', 'another')`); err != nil {
			t.Fatal(err)
		}
		if err := w.evals.Execute(t.Context(), c.org.ID, id); err != nil {
			t.Fatal(err)
		}
		run = c.get(runsPath + id).want(http.StatusOK).run()
		if run["status"] != "failed" || run["error"] != "subject_gone: the content of pdf is not the one that the run was made for" {
			t.Errorf("got %v", without(run, "cases"))
		}
	})
}

func TestSummary(t *testing.T) {
	trial := func(c int, v evals.Variant, verdicts ...evals.Verdict) (all []evals.Trial) {
		for i, verdict := range verdicts {
			t := evals.Trial{Unit: evals.Unit{Case: c, Variant: v, N: i + 1}, Verdict: verdict}
			if verdict == evals.Pass || verdict == evals.Fail {
				score := 0.0
				if verdict == evals.Pass {
					score = 1
				}
				t.Score = &score
			}
			all = append(all, t)
		}
		return all
	}
	const p, f, e, s = evals.Pass, evals.Fail, evals.Error, evals.Skipped
	for _, c := range []struct {
		name     string
		negative bool
		skill    []evals.Verdict
		want     evals.Verdict
	}{
		{"all pass", false, []evals.Verdict{p, p, p}, p},
		{"half is enough", false, []evals.Verdict{p, f}, p},
		{"half is not enough for a negative", true, []evals.Verdict{p, f}, f},
		{"most", true, []evals.Verdict{p, p, f}, p},
		{"less than half", false, []evals.Verdict{p, f, f}, f},
		{"errors do not count", false, []evals.Verdict{e, e, p}, p},
		{"only errors", false, []evals.Verdict{e, e}, e},
		{"only skipped", false, []evals.Verdict{s}, s},
		{"never made", false, nil, s},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := evals.Case{Expectation: evals.ShouldTrigger}
			if c.negative {
				one.Expectation = evals.ShouldNotTrigger
			}
			got, _ := evals.Summarize([]evals.Case{one}, trial(0, evals.WithSkill, c.skill...))
			if *got[0].Verdict != c.want {
				t.Errorf("got %s, want %s", *got[0].Verdict, c.want)
			}
		})
	}
	t.Run("same cases only", func(t *testing.T) {
		var trials []evals.Trial
		for i, pair := range [][2]evals.Verdict{{p, f}, {p, p}, {f, e}, {e, p}, {f, f}} {
			trials = append(trials, trial(i, evals.WithSkill, pair[0])...)
			trials = append(trials, trial(i, evals.WithoutSkill, pair[1])...)
		}
		_, sum := evals.Summarize(make([]evals.Case, 5), trials)
		want := evals.Summary{
			Passed: 2, Failed: 2, Errors: 1, PassRate: ptr(0.5), PassK: ptr(0.5), Interval: sum.Interval,
			Baseline: &evals.Comparison{PassRate: 1.0 / 3, Delta: 1.0 / 3, Gain: 0.5}, Tried: 10, TrialErrors: 2,
		}
		if diff := cmp.Diff(want, sum, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("summary (-want +got):\n%s", diff)
		}
	})
	t.Run("errors that mask the rate", func(t *testing.T) {
		for _, c := range []struct {
			verdicts []evals.Verdict
			reliable bool
		}{
			{nil, true},
			{[]evals.Verdict{p, p, p, p, e}, true}, // a fifth
			{[]evals.Verdict{p, p, p, e}, false},
			{[]evals.Verdict{p, p, p, s, s, e}, false}, // what was skipped was not tried
			{[]evals.Verdict{p, e, e, e}, false},       // the case passes all the same
		} {
			if _, sum := evals.Summarize(make([]evals.Case, 1), trial(0, evals.WithSkill, c.verdicts...)); sum.Reliable() != c.reliable {
				t.Errorf("%v: reliable %t, want %t", c.verdicts, sum.Reliable(), c.reliable)
			}
		}
	})
	t.Run("pass^k", func(t *testing.T) {
		trials := append(trial(0, evals.WithSkill, p, p, p), trial(1, evals.WithSkill, p, p, f)...)
		trials = append(trials, trial(2, evals.WithSkill, p, e, p)...)
		if _, sum := evals.Summarize(make([]evals.Case, 3), trials); *sum.PassRate != 1 || *sum.PassK != 2.0/3 {
			t.Errorf("pass rate %v, pass^k %v", *sum.PassRate, *sum.PassK)
		}
	})
}

func ptr[T any](v T) *T { return &v }
