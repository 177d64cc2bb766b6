package alerts_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// TestNoDataIsNotZero: a skill without sessions, without graded sessions, or whose
// sessions left the window, does not have a pass rate of 0 %.
func TestNoDataIsNotZero(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.alert(apptest.With(passRate(hookURL), object{"threshold": 1}))
		ada.sessionsAt("old", time.Now().Add(-8*day), repeat(0, 20)...)
		for range 10 {
			ada.seenAt("ungraded", time.Now())
		}
		ada.unseen("never")
		w.evaluate(ada, 3)
		ada.wantEvents()
	})
}

// unseen creates a skill without sessions.
func (c *client) unseen(name string) string {
	c.T.Helper()
	var id string
	err := c.w.DB.InTx(c.T.Context(), func(tx *store.Tx) (err error) {
		id, err = skills.Resolve(c.T.Context(), tx, c.Org.ID, name)
		return err
	})
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	return id
}

// TestUnlistedSkills: no rule fires for a skill that is not confirmed, hidden or
// merged, whether the rule watches it or all skills.
func TestUnlistedSkills(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		rule := apptest.With(passRate(hookURL), object{"type": "no_data", "threshold": 7.0})
		ada.alert(rule)
		for _, name := range []string{"quiet", "unconfirmed", "hidden", "merged"} {
			ada.seenAt(name, time.Now().Add(-8*day))
			ada.alert(apptest.With(rule, object{"skill_id": ada.unseen(name)}))
		}
		w.Exec(`UPDATE skills SET confirmed = (name <> 'unconfirmed'), hidden = (name = 'hidden'),
			merged_into = CASE WHEN name = 'merged' THEN $1 END`, ada.unseen("quiet"))
		w.evaluate(ada, 3)
		ada.wantEvents("firing quiet", "firing quiet")
	})
}

func TestSilence(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		silence := func(days float64) string {
			return ada.alert(apptest.With(passRate(hookURL), object{"type": "no_data", "threshold": days}))
		}
		silence(7)
		now := time.Now()
		ada.seenAt("talks", now.Add(-7*day+time.Minute))
		ada.seenAt("quiet", now.Add(-7*day))
		ada.unseen("new")
		w.Exec(`UPDATE skills SET created_at = created_at - $2 WHERE id = $1`, ada.unseen("never"), (100 * day).Microseconds())
		w.evaluate(ada, 3)
		ada.wantEvents("firing quiet") // the alert is too new for the skill without sessions
		w.Exec(`UPDATE alert_rules SET created_at = created_at - $1`, (50 * day).Microseconds())
		w.evaluate(ada, 3)
		ada.wantEvents("firing quiet", "firing never")
		events := ada.Get("/api/v1/alert-events").List("events")
		for i, days := range []float64{50, 7} {
			got, ok := events[i]["days_without_sessions"].(float64)
			if !ok || got < days || got > days+0.01 || events[i]["pass_rate"] != nil {
				t.Errorf("event %v, want %v days without sessions", events[i], days)
			}
		}
		ada.seenAt("quiet", now)
		w.evaluate(ada, 3)
		ada.wantEvents("firing quiet", "firing never", "resolved quiet")
	})
}

// TestSilenceToday: a threshold of 0 requires a session since midnight UTC.
func TestSilenceToday(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.alert(apptest.With(passRate(hookURL), object{"type": "no_data", "threshold": 0}))
		awayFromMidnight()
		midnight := time.Now().UTC().Truncate(day)
		ada.seenAt("yesterday", midnight.Add(-time.Second))
		ada.seenAt("today", midnight)
		ada.unseen("new")
		w.evaluate(ada, 2)
		ada.wantEvents("firing yesterday")
	})
}

// awayFromMidnight waits if a new day would begin during the test.
func awayFromMidnight() {
	if left := day - time.Since(time.Now().UTC().Truncate(day)); left < 10*time.Second {
		time.Sleep(left)
	}
}

// TestOnSchedule: missing data causes no push, so the schedule must detect it.
func TestOnSchedule(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{interval: 100 * time.Millisecond})
		ada := w.org("acme")
		ada.seenAt("pdf", time.Now().Add(-7*day))
		hook := notifytest.Receive(t, notifytest.Answering(http.StatusOK))
		ada.alert(apptest.With(passRate(hook.URL), object{"type": "no_data"}))
		w.Work()
		hook.Await(1)
		ada.wantEvents("firing pdf")
	})
}
