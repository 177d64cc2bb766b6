package alerts_test

import (
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/events/eventstest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestEvents: other systems are told once that an alert fired, and that it is resolved.
func TestEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		told := eventstest.Register(w.World)
		ada := w.org("acme")
		hook := eventstest.Subscribe(t, told, ada.Org.ID)
		w.Work()
		id := ada.fire(notifytest.Receive(t, notifytest.Answering(200)).URL)
		w.evaluate(ada, 2)
		data := hook.Only(events.AlertFired)
		if data["alert_id"] != id || data["skill"] != "pdf" || data["skill_id"] != ada.skill("pdf") || data["alert_type"] != "pass_rate_below" ||
			data["threshold"] != 0.8 || data["pass_rate"] != 0.0 || data["graded_sessions"] != 5.0 {
			t.Errorf("fired: %v", data)
		}
		ada.sessions("pdf", repeat(1, 100)...)
		w.evaluate(ada, 2)
		if data = hook.Only(events.AlertResolved); data["alert_id"] != id || data["pass_rate"].(float64) < 0.9 {
			t.Errorf("resolved: %v", data)
		}
		w.Settle()
		if n := len(hook.Events()); n != 2 {
			t.Errorf("%d events, want 2", n)
		}
	})
}
