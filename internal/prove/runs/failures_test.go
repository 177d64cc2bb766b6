package runs_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// recorder records the sources whose runs succeeded.
type recorder struct {
	mu      sync.Mutex
	sources []string
}

// RunEnded implements runs.OnEnded.
func (l *recorder) RunEnded(_ context.Context, _ *store.Tx, r runs.Run) error {
	if r.Status != runs.Succeeded || r.SourceID == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sources = append(l.sources, *r.SourceID)
	return nil
}

// TestFailures has a case that always failed, and a regression.
func TestFailures(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var mu sync.Mutex
		choice := "pdf"
		choose := func(c string) { mu.Lock(); defer mu.Unlock(); choice = c }
		cancelled := make(chan struct{})
		model := judgetest.Model{
			Route: func(string, []string) string {
				mu.Lock()
				chosen := choice
				mu.Unlock()
				if chosen == "none yet" {
					<-cancelled
				}
				return chosen
			},
			Answer: func(string, string) string { return "nothing" },
		}
		server := judgetest.New(t, model.Respond)
		l := &recorder{}
		w := runstest.New(t, db, runstest.Scripted(server), func(w *runstest.World) { w.Runs.OnEnded = l })
		w.Work()
		c := w.Org("acme")
		triggers := c.Create(judged(with(trigger("good"), object{"id": "a"}), with(avoid("bad"), object{"id": "b"})))
		prompts := c.Create(deterministic(
			with(object{"prompt": "say it", "expected": "it", "case_kind": "exact_match"}, object{"id": "p"}), exact("a", "b")))
		ownedID := c.Source()
		source := object{"source_id": "src_" + ownedID}
		first := c.Finish(triggers, object{"subject": source, "trials": 3})
		if first["subject"].(object)["source_id"] != ownedID {
			t.Errorf("subject is %v", first["subject"])
		}
		choose("weather")
		second := c.Finish(triggers, object{"subject": source, "trials": 3})
		third := c.Finish(prompts, object{"subject": source})
		c.Finish(triggers) // of an entry: it says nothing about the source
		choose("none yet") // so that the run cannot end before it is cancelled
		c.Post(runsPath+c.Start(triggers, object{"subject": source})["id"].(string)+"/cancel", nil).Want(http.StatusOK)
		close(cancelled)
		got, err := runs.FailedCases(t.Context(), db, c.Org.ID, ownedID)
		if err != nil {
			t.Fatal(err)
		}
		want := []runs.FailedCase{
			{SuiteID: prompts["id"].(string), RunID: third["id"].(string), CaseID: "p", Query: "say it", ShouldTrigger: true, Failed: 1, Runs: 1},
			{SuiteID: triggers["id"].(string), RunID: second["id"].(string), CaseID: "a", Query: "good", ShouldTrigger: true, Failed: 1, Runs: 2, Regression: true},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(runs.FailedCase{}, "LastAt")); diff != "" {
			t.Errorf("failures (-want +got):\n%s", diff)
		}
		for _, f := range got {
			if time.Since(f.LastAt).Abs() > time.Minute {
				t.Errorf("last at %v", f.LastAt)
			}
		}
		other, err := runs.FailedCases(t.Context(), db, w.Org("other").Org.ID, ownedID)
		if err != nil || len(other) != 0 {
			t.Errorf("another organisation gets %v, %v", other, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if diff := cmp.Diff([]string{ownedID, ownedID, ownedID}, l.sources); diff != "" {
			t.Errorf("sources (-want +got):\n%s", diff)
		}
	})
}

// TestSubjectGone fails the run of a skill whose content has changed.
func TestSubjectGone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		run := c.Start(c.Create(deterministic(exact("a", "a"))))
		id := run["id"].(string)
		if _, err := db.Exec(t.Context(), `UPDATE eval_runs SET subject = REPLACE(subject, $1, 'another')`,
			contentHash(c)); err != nil {
			t.Fatal(err)
		}
		if err := w.Runs.Execute(t.Context(), c.Org.ID, id); err != nil {
			t.Fatal(err)
		}
		run = c.Run(id)
		if run["status"] != "failed" || run["error"] != "subject_gone: the content of pdf has changed since the run" {
			t.Errorf("got %v", without(run, "cases"))
		}
	})
}

func TestSummary(t *testing.T) {
	trial := func(c int, v runs.Arm, verdicts ...runs.Verdict) (all []runs.Trial) {
		for i, verdict := range verdicts {
			t := runs.Trial{TrialKey: runs.TrialKey{Case: c, Arm: v, N: i + 1}, Verdict: verdict}
			if verdict == runs.Pass || verdict == runs.Fail {
				score := 0.0
				if verdict == runs.Pass {
					score = 1
				}
				t.Score = &score
			}
			all = append(all, t)
		}
		return all
	}
	const p, f, e, s = runs.Pass, runs.Fail, runs.Error, runs.Skipped
	for _, c := range []struct {
		name     string
		negative bool
		skill    []runs.Verdict
		want     runs.Verdict
	}{
		{"all pass", false, []runs.Verdict{p, p, p}, p},
		{"half is enough", false, []runs.Verdict{p, f}, p},
		{"half is not enough for a negative", true, []runs.Verdict{p, f}, f},
		{"most", true, []runs.Verdict{p, p, f}, p},
		{"less than half", false, []runs.Verdict{p, f, f}, f},
		{"errors do not count", false, []runs.Verdict{e, e, p}, p},
		{"only errors", false, []runs.Verdict{e, e}, e},
		{"only skipped", false, []runs.Verdict{s}, s},
		{"never made", false, nil, s},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := suites.Case{Expectation: suites.ShouldTrigger}
			if c.negative {
				one.Expectation = suites.ShouldNotTrigger
			}
			got, _ := runs.Summarize([]suites.Case{one}, trial(0, runs.WithSkill, c.skill...))
			if *got[0].Verdict != c.want {
				t.Errorf("got %s, want %s", *got[0].Verdict, c.want)
			}
		})
	}
	t.Run("same cases only", func(t *testing.T) {
		var trials []runs.Trial
		for i, pair := range [][2]runs.Verdict{{p, f}, {p, p}, {f, e}, {e, p}, {f, f}} {
			trials = append(trials, trial(i, runs.WithSkill, pair[0])...)
			trials = append(trials, trial(i, runs.WithoutSkill, pair[1])...)
		}
		_, sum := runs.Summarize(make([]suites.Case, 5), trials)
		want := runs.Summary{
			Passed: 2, Failed: 2, Errors: 1, PassRate: ptr(0.5), PassK: ptr(0.5), Interval: sum.Interval,
			Score: &stats.Estimate{Value: 0.5, Interval: *sum.Interval}, Lift: sum.Lift,
			Baseline: &runs.Comparison{PassRate: 1.0 / 3, Delta: 1.0 / 3, NormalizedGain: 0.5}, Tried: 10, TrialErrors: 2,
		}
		if diff := cmp.Diff(want, sum, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("summary (-want +got):\n%s", diff)
		}
	})
	t.Run("errors that mask the rate", func(t *testing.T) {
		for _, c := range []struct {
			verdicts []runs.Verdict
			reliable bool
		}{
			{nil, true},
			{[]runs.Verdict{p, p, p, p, e}, true}, // a fifth
			{[]runs.Verdict{p, p, p, e}, false},
			{[]runs.Verdict{p, p, p, s, s, e}, false}, // what was skipped was not tried
			{[]runs.Verdict{p, e, e, e}, false},       // the case passes all the same
		} {
			if _, sum := runs.Summarize(make([]suites.Case, 1), trial(0, runs.WithSkill, c.verdicts...)); sum.Reliable() != c.reliable {
				t.Errorf("%v: reliable %t, want %t", c.verdicts, sum.Reliable(), c.reliable)
			}
		}
	})
	t.Run("pass^k", func(t *testing.T) {
		trials := append(trial(0, runs.WithSkill, p, p, p), trial(1, runs.WithSkill, p, p, f)...)
		trials = append(trials, trial(2, runs.WithSkill, p, e, p)...)
		if _, sum := runs.Summarize(make([]suites.Case, 3), trials); *sum.PassRate != 1 || *sum.PassK != 2.0/3 {
			t.Errorf("pass rate %v, pass^k %v", *sum.PassRate, *sum.PassK)
		}
	})
}

func ptr[T any](v T) *T { return &v }
