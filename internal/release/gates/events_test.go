package gates_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/events/eventstest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestEvents: other systems are told once of a candidate, of the decision about it, and
// that it is published.
func TestEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		hook := eventstest.Subscribe(t, eventstest.Register(w.World.World), w.Caller.Org.ID)
		w.enforce()
		w.Work()
		gate := w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id")
		w.decided(gate)
		if data := hook.Only(events.VersionCandidate); data["version"] != "1.1.0" || data["gate_id"] != gate || data["current"] != false {
			t.Errorf("candidate: %v", data)
		}
		data := hook.Only(events.GateDecided)
		want := object{
			"gate_id": gate, "entry_id": w.entry, "entry": "pdf", "version": "1.1.0", "against": "1.0.0", "mode": "enforce",
			"verdict": "pass", "reason": data["reason"], "published": true, "attempt": 1.0, "actor": object{"kind": "system"},
		}
		if diff := cmp.Diff(want, data); diff != "" {
			t.Errorf("decided (-want +got):\n%s", diff)
		}
		if data := hook.Only(events.VersionPublished); data["version"] != "1.1.0" || data["current"] != true {
			t.Errorf("published: %v", data)
		}

		// A blocked one is not published, until a person overrides the gate.
		w.model.decide(func(version, _ string, _ int) bool { return version != "1.2.0" })
		gate = w.push("1.2.0").Want(http.StatusAccepted).Text("gate", "id")
		w.decided(gate)
		if data := hook.AwaitEvent(events.GateDecided, 2)["data"].(object); data["verdict"] != "block" || data["published"] != false {
			t.Errorf("decided: %v", data)
		}
		w.Post("/api/v1/gates/"+gate+"/override", object{"reason": "known"}).Want(http.StatusOK)
		if data := hook.AwaitEvent(events.VersionPublished, 2)["data"].(object); data["version"] != "1.2.0" {
			t.Errorf("published: %v", data)
		}
		w.Settle()
		var got []string
		for _, e := range hook.Events() {
			got = append(got, e["type"].(string))
		}
		slices.Sort(got)
		all := []string{
			"gate.decided", "gate.decided", "version.candidate", "version.candidate", "version.published", "version.published",
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
