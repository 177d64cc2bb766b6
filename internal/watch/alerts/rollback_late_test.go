package alerts_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// wantRollback compares what the alert says of its only skill, in its detail, in the
// list and in its last event. Times are left out.
func (c *client) wantRollback(alert string, want any) {
	c.T.Helper()
	for name, states := range map[string]any{
		"detail": c.Get(alertsPath + "/" + alert).Want(http.StatusOK).Object()["states"],
		"list":   c.Get(alertsPath).Want(http.StatusOK).List("alerts")[0]["states"],
		"events": c.Get("/api/v1/alert-events").Want(http.StatusOK).List("events")[0]["states"],
	} {
		state := states.([]any)[0].(object)
		got := state["rollback"]
		if back, ok := got.(object); ok && back["at"] != nil {
			got = apptest.Without(back, "at")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			c.T.Errorf("%s: rollback (-want +got):\n%s", name, diff)
		}
	}
}

// bad pushes failing sessions one by one, with an evaluation after each, until the
// version is no longer current or so many failed. It returns how many did.
func (c *client) bad(entry, skill, version string, most int) int {
	c.T.Helper()
	for i := range most {
		c.sessions(skill, 0)
		c.w.evaluate(c, 1)
		if current, _ := c.entry(entry); current != version {
			return i + 1
		}
	}
	return most
}

// TestRollbackLate: an alert rolls back in any evaluation in which its rule is breached,
// not only in that in which it starts to fire.
func TestRollbackLate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		entry := ada.publish("", "pdf", "1.0")
		ada.sessions("pdf", repeat(1, 8)...)
		alert := ada.alert(apptest.With(passRate(hookURL), object{
			"skill_id": ada.skill("pdf"), "action": "rollback", "sensitivity": "confident", "threshold": 0.9,
		}))
		w.evaluate(ada, 1)
		ada.publish(entry, "pdf", "1.1")
		for range 4 { // the week's rate is below, but the version has too few sessions of its own
			ada.sessions("pdf", 0)
			w.evaluate(ada, 1)
		}
		ada.wantEvents("firing pdf")
		if note := ada.Get("/api/v1/alert-events").List("events")[0]["note"]; note != "Not rolled back yet: graded sessions that version 1.1 still needs: 1." {
			t.Errorf("note %v", note)
		}
		ada.wantRollback(alert, object{"blocked_by": "too_few_sessions", "needs": 1.0})
		if n := ada.bad(entry, "pdf", "1.1", 5); n != 1 {
			t.Errorf("rolled back after %d more sessions, want 1", n)
		}
		ada.wantEvents("firing pdf", "reminder pdf")
		event := ada.Get("/api/v1/alert-events").List("events")[0]
		if event["note"] != "Rolled back from version 1.1 to 1.0." || event["version"] != "1.1" {
			t.Errorf("event %v", event)
		}
		ada.wantRollback(alert, object{"version": "1.1"})
		w.evaluate(ada, 2) // the week is still below, but 1.0 is not
		if current, _ := ada.entry(entry); current != "1.0" {
			t.Errorf("current %s", current)
		}
		ada.wantRollback(alert, object{"version": "1.1"})
	})
}

// TestRollbackAgain: bad versions that are pushed while the alert still fires are taken
// back, too, to the newest one that holds, and acknowledging the alert changes nothing.
func TestRollbackAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		entry := ada.publish("", "pdf", "1.0")
		ada.sessions("pdf", repeat(1, 20)...)
		alert := ada.alert(apptest.With(passRate(hookURL), object{"skill_id": ada.skill("pdf"), "action": "rollback"}))
		w.evaluate(ada, 1)
		// Two bad versions before the first evaluation: one back is not enough.
		ada.publish(entry, "pdf", "1.1")
		ada.sessions("pdf", repeat(0, 10)...)
		ada.publish(entry, "pdf", "1.2")
		ada.sessions("pdf", repeat(0, 12)...)
		w.evaluate(ada, 1)
		ada.wantRollback(alert, object{"version": "1.2"})
		if current, _ := ada.entry(entry); current != "1.0" {
			t.Errorf("current %s, want 1.0", current)
		}
		// It fires and is acknowledged; another bad version.
		ada.Post(alertsPath+"/"+alert+"/ack", nil).Want(http.StatusOK)
		ada.publish(entry, "pdf", "1.3")
		w.evaluate(ada, 1)
		ada.wantRollback(alert, object{"blocked_by": "too_few_sessions", "needs": 5.0})
		if n := ada.bad(entry, "pdf", "1.3", 12); n != 9 {
			t.Errorf("taken back after %d sessions, want 9", n)
		}
		ada.wantRollback(alert, object{"version": "1.3"})
		ada.wantEvents("firing pdf", "reminder pdf")
		state := ada.Get(alertsPath + "/" + alert).Object()["states"].([]any)[0].(object)
		if state["acknowledged_by"] != ada.User.ID || state["acknowledged_at"] == nil || state["state"] != "firing" {
			t.Errorf("state %v", state)
		}
		// Snoozed: it rolls back, and says so afterwards.
		until := time.Now().Add(time.Hour)
		ada.Post(alertsPath+"/"+alert+"/snooze", object{"until": until.UTC().Format(time.RFC3339)}).Want(http.StatusOK)
		ada.publish(entry, "pdf", "1.4")
		ada.sessions("pdf", repeat(0, 12)...)
		w.evaluate(ada, 1)
		ada.wantRollback(alert, object{"version": "1.4"})
		if n := w.Count("alert_deliveries WHERE org_id = $1", ada.Org.ID); n != 2 {
			t.Errorf("%d deliveries, want 2: none while it is snoozed", n)
		}
		state = ada.Get(alertsPath + "/" + alert).Object()["states"].([]any)[0].(object)
		if state["snoozed_until"] == nil {
			t.Errorf("state %v", state)
		}
		// A person takes that back: the version was rolled back once, and a person decided.
		ada.Post("/api/v1/registry/"+entry+"/rollback/undo", object{}).Want(http.StatusOK)
		ada.sessions("pdf", repeat(0, 20)...)
		w.evaluate(ada, 2)
		ada.wantRollback(alert, object{"blocked_by": "already_rolled_back", "needs": 0.0})
		if current, _ := ada.entry(entry); current != "1.4" {
			t.Errorf("current %s, want 1.4", current)
		}
	})
}

// TestRollbackWorse: after a rollback to the first version there is nothing that it could
// be worse than, and the alert is resolved.
func TestRollbackWorse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		entry := ada.publish("", "pdf", "1.0")
		ada.sessions("pdf", repeat(1, 30)...)
		alert := ada.alert(apptest.With(passRate(hookURL), object{
			"type": "worse_than_previous", "skill_id": ada.skill("pdf"), "action": "rollback",
		}))
		ada.publish(entry, "pdf", "2.0")
		ada.sessions("pdf", repeat(0, 20)...)
		w.evaluate(ada, 1)
		ada.wantRollback(alert, object{"version": "2.0"})
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf", "resolved pdf")
	})
}
