package apply_test

import (
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/events/eventstest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestEvents: other systems are told once that a proposal is applied, by us or by hand.
func TestEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, host.Git)
		hook := eventstest.Subscribe(t, w.told, w.Caller.Org.ID)
		byHand := w.propose()
		w.Do(http.MethodPatch, byHand, object{"status": "approved"}).Want(http.StatusOK)
		w.Do(http.MethodPatch, byHand, object{"status": "applied"}).Want(http.StatusOK)
		if data := hook.Only(events.ProposalApplied); data["proposal_id"] != idOf(byHand) || data["as"] != nil {
			t.Errorf("applied: %v", data)
		}
		path := w.propose()
		w.applyAs(path, "version").Want(http.StatusAccepted)
		w.await(path, "published")
		data := hook.AwaitEvent(events.ProposalApplied, 2)["data"].(object)
		if data["proposal_id"] != idOf(path) || data["as"] != "version" || data["version"] != "1.0.1" || data["pull_request"] != nil {
			t.Errorf("applied: %v", data)
		}
	})
}
