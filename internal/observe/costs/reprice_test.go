package costs_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// TestRepriceAgain: prices change while the job has read the first requests and
// waits for their user, and so does what another user reports before it.
func TestRepriceAgain(t *testing.T) {
	db := storetest.Open(t, "postgres") // SQLite has one writer at a time
	ada := newRoom(t, db)
	bob := &room{ada.World.Member(ada.Org, access.Member), ada.skills, ada.costs, ada.texts, 0}
	setPrice := func(dollars int) {
		ada.Do("PUT", "/api/v1/settings/prices", object{"models": []any{object{"match": "m", "input": dollars, "output": 0}}}).
			Want(http.StatusOK)
	}
	report := func(r *room, id string) {
		r.send(skills.Report{}, costs.Report{Requests: []costs.Request{
			{ID: id, Model: "m", Tokens: costs.Tokens{Input: 1000}, At: time.Now()},
		}})
	}
	report(ada, "2")
	setPrice(1)
	repriced := make(chan error, 1)
	err := db.InTx(t.Context(), func(tx *store.Tx) error {
		if err := skills.LockUser(t.Context(), tx, ada.User.ID); err != nil {
			return err
		}
		go func() { repriced <- ada.costs.Reprice(t.Context(), ada.Org.ID) }()
		apptest.Eventually(t, "the job to wait for the user", func() bool {
			return ada.World.Count(`pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
		})
		report(bob, "1")
		setPrice(5)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-repriced; err != nil {
		t.Fatal(err)
	}
	if got := ada.Get("/v1/costs").Want(http.StatusOK).Object()["total"]; got != 0.01 {
		t.Errorf("got %v, want two requests of 0.005", got)
	}
}
