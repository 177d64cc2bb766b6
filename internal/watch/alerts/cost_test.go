package alerts_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// paidUses pushes sessions that used a skill, with a model request of so many
// dollars each.
func (c *client) paidUses(skill string, dollars ...float64) {
	c.T.Helper()
	var uses, facts []object
	for _, cost := range dollars {
		id, at := uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano)
		uses = append(uses, object{"skill_invocation_id": id, "session_id": id, "skill_name": skill, "occurred_at": at, "triggered": true})
		facts = append(facts, object{
			"execution_fact_id": id, "session_id": id, "occurred_at": at, "cost_usd": cost, "input_tokens": 1000, "active_skills": []string{skill},
		})
	}
	c.pushRecords(object{"skill_invocations": uses, "execution_facts": facts})
}

// TestCostAbove fires for the skill whose median use costs more, with five requests
// or more, and resolves when uses become cheap.
func TestCostAbove(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.alert(apptest.With(passRate(hookURL), object{"type": "cost_above", "threshold": 0.5}))
		ada.paidUses("cheap", 0.4, 0.4, 0.4, 0.4, 9, 9)
		ada.paidUses("rare", 0.6, 0.6, 0.6, 0.6)
		ada.paidUses("dear", 0.6, 0.6, 0.6, 0.6, 0.6, 0.1)
		w.evaluate(ada, 3)
		ada.wantEvents("firing dear")
		event := ada.Get("/api/v1/alert-events").List("events")[0]
		if event["measured"] != 0.6 || event["threshold"] != 0.5 || event["pass_rate"] != nil {
			t.Errorf("event %v, want 0.6 dollars for a use", event)
		}
		ada.paidUses("dear", 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)
		w.evaluate(ada, 3)
		ada.wantEvents("firing dear", "resolved dear")
	})
}
