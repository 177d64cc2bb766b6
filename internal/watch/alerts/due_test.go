package alerts_test

import (
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// TestDue: evaluated when it is due, a rule notifies of the same in the same minute as
// evaluated every minute, with a fraction of the evaluations.
func TestDue(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 3, 1, 22, 17, 0, 0, time.UTC)
	every, sparse, notices := 0, 0, 0
	for range 200 {
		minutes := func(n int) time.Time { return start.Add(time.Duration(random.IntN(n)) * time.Minute) }
		r := alerts.Rule{Type: alerts.NoData, Threshold: []float64{0, 0.5, 1, 2}[random.IntN(4)], CreatedAt: start}
		if random.IntN(3) == 0 {
			r.Type, r.Threshold, r.Sensitivity = alerts.PassRateBelow, 0.8, alerts.Point
		}
		if random.IntN(2) == 0 {
			until := minutes(3000)
			r.SnoozedUntil = &until
		}
		// Data comes now and then; each push is evaluated by itself, between the sweeps. At
		// midnight the last sessions of bad days leave the window.
		last, better := minutes(600), minutes(5000).Truncate(24*time.Hour)
		of := func(now time.Time) skills.WindowStats {
			s := skills.WindowStats{ID: "s", CreatedAt: start, LastSeenAt: &last, GradedSessions: 10, PassRate: new(float64)}
			if !now.Before(better) {
				*s.PassRate = 1
			}
			return s
		}
		end := start.Add(5 * 24 * time.Hour)
		want, n := alerts.Transitions(r, of, start, end, false)
		got, m := alerts.Transitions(r, of, start, end, true)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-every minute +when due):\n%s", r, diff)
		}
		every, sparse, notices = every+n, sparse+m, notices+len(got)
	}
	if notices == 0 || sparse*10 > every {
		t.Errorf("%d evaluations instead of %d, with %d notices", sparse, every, notices)
	}
}

// TestSweepAtRest: what an evaluation leaves is due later; a rule that is new or changed
// is due at once, also one of a binary that does not know when.
func TestSweepAtRest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		// However many rules there are, those that are due are found by an index.
		q := storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan`), Allow: regexp.MustCompile(`alert_rules_due|SCAN (due|\(subquery)`),
		}
		at := store.Now() // before all evaluations: midnight may come between
		due := func(want ...string) {
			t.Helper()
			got, err := alerts.OrgsDue(t.Context(), q, at)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("%s %v", diff, err)
			}
		}
		ada, bob := w.org("acme"), w.org("bold")
		rule := ada.alert(passRate(hookURL))
		bob.alert(passRate(hookURL))
		due(ada.Org.ID, bob.Org.ID)
		if err := w.alerts.EvaluateDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		due()
		ada.Do("PATCH", "/api/v1/alerts/"+rule, object{"threshold": 0.5})
		due(ada.Org.ID)
		if err := w.alerts.EvaluateDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		due()
	})
}

// TestMadeMeanwhile: a rule that is made during an evaluation, which does not see it, is
// due afterwards. SQLite makes it when the evaluation has ended.
func TestMadeMeanwhile(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.alert(passRate(hookURL))
		ada.sessions("pdf", repeat(0, 5)...)
		made := make(chan struct{})
		w.alerts.OnTransition(sync.OnceFunc(func() {
			go func() {
				defer close(made)
				ada.alert(passRate(hookURL))
			}()
			select {
			case <-made:
			case <-time.After(time.Second):
			}
		}))
		for _, want := range [][]string{{"firing pdf"}, {"firing pdf", "firing pdf"}} {
			if err := w.alerts.EvaluateDue(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-made
			ada.wantEvents(want...)
		}
	})
}
