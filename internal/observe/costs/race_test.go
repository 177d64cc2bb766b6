package costs_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// TestReportsAtOnce: reports of several users on the same skills, while prices
// change and costs move, never wait for each other in a circle.
func TestReportsAtOnce(t *testing.T) {
	db := storetest.Open(t, "postgres") // SQLite has one writer at a time
	ada := newRoom(t, db)
	pdf := ada.skillID("skill 0")
	var runs, reports atomic.Int64
	var group sync.WaitGroup
	for n := range 5 {
		user := ada.World.Member(ada.Org, access.Member).User.ID
		group.Go(func() {
			for round := range 12 {
				seen, spent := skills.Report{OrgID: ada.Org.ID, UserID: user}, costs.Report{OrgID: ada.Org.ID, UserID: user}
				for i := range 12 {
					id := fmt.Sprint(user, round, i)
					skill := fmt.Sprintf("skill %d", (n*5+round+i)%6)
					at := time.Now().AddDate(0, 0, -i%4)
					seen.Observations = append(seen.Observations, skills.Observation{
						ID: id, SkillName: skill, Session: id, VersionHash: "1", Triggered: true, At: at, NormalizedAt: at,
					})
					seen.Gradings = append(seen.Gradings, skills.Grading{ID: id, SkillName: skill, Session: id, PassRate: new(float64(1)), At: at})
					spent.Requests = append(spent.Requests, costs.Request{
						ID: id, Session: id, Skill: skill, Model: fmt.Sprint("m", i%3), Tokens: costs.Tokens{Input: 1000}, At: at,
					})
				}
				reports.Add(1)
				err := db.InTx(t.Context(), func(tx *store.Tx) error {
					runs.Add(1) // once more if the database found a deadlock
					return ada.skills.Observe(t.Context(), tx, seen, func(c skills.Changes) error {
						spent.Sessions = c.Sessions
						return ada.costs.Ingest(t.Context(), tx, spent)
					})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for round := range 6 {
		ada.Do("PUT", "/api/v1/settings/prices", object{"models": []any{object{"match": "m1", "input": round, "output": 0}}}).
			Want(http.StatusOK)
		if err := ada.costs.Reprice(t.Context(), ada.Org.ID); err != nil {
			t.Error(err)
		}
		if err := ada.costs.Move(t.Context(), ada.Org.ID, pdf); err != nil {
			t.Error(err)
		}
	}
	group.Wait()
	if runs.Load() != reports.Load() {
		t.Errorf("%d reports ran %d times", reports.Load(), runs.Load())
	}
	for name, check := range map[string]func() ([]invariants.Finding, error){
		"costs":  func() ([]invariants.Finding, error) { return ada.costs.Check(t.Context(), db) },
		"skills": func() ([]invariants.Finding, error) { return ada.skills.Check(t.Context(), db) },
	} {
		found, err := check()
		for _, f := range found {
			if f.Status != invariants.Good {
				t.Errorf("%s: %v", name, f)
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
}
