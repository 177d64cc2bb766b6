package costs_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

// TestMergedSkill: the costs of a skill go where its other numbers go, also those
// that a mark attributed, and come back.
func TestMergedSkill(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		c := &curate.Service{DB: db, Jobs: r.World.Queue, Skills: r.skills}
		c.Mount(r.World.API)
		c.Register()
		defer r.World.Work()()
		start := time.Now().Add(-time.Hour)
		at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
		r.send(skills.Report{
			Observations: []skills.Observation{
				{ID: "a", SkillName: "pdf", Session: "s", Triggered: true, At: at(1), NormalizedAt: at(1)},
				{ID: "b", SkillName: "acme:pdf", Session: "s", Triggered: true, At: at(2), NormalizedAt: at(2)},
			},
			Gradings: []skills.Grading{{ID: "g", SkillName: "acme:pdf", Session: "s", PassRate: new(float64(1)), At: at(3)}},
		}, costs.Report{Marks: []costs.Mark{{Session: "s", Skill: "acme:pdf", At: at(4)}}})
		r.pay(
			costs.Request{Session: "s", Turn: "1", Skill: "pdf", Micros: paid(1), At: at(1)},
			costs.Request{Session: "s", Turn: "2", Skill: "acme:pdf", Micros: paid(10), At: at(2)},
			costs.Request{Session: "s", Inferred: true, Micros: paid(100), At: at(5)},
			costs.Request{Skill: "acme:pdf", Micros: paid(1000), At: at(6)},
		)
		merge := func(into any) {
			t.Helper()
			r.Do(http.MethodPatch, "/v1/skills/acme:pdf", object{"merged_into": into}).Want(http.StatusOK)
		}
		want := func(when string, pdf, acme any, perSuccess any) {
			t.Helper()
			r.World.Settle()
			for name, total := range map[string]any{"pdf": pdf, "acme:pdf": acme} {
				cost, _ := r.cost(name).(object)
				if cost["total"] != total {
					t.Errorf("%s: %s costs %v, want %v", when, name, cost["total"], total)
				}
			}
			if cost, _ := r.cost("pdf").(object); cost["per_success"] != perSuccess {
				t.Errorf("%s: a success of pdf costs %v, want %v", when, cost["per_success"], perSuccess)
			}
			found, err := r.costs.Check(t.Context(), db)
			if err != nil || len(found) != 1 || found[0].Status != invariants.Good {
				t.Errorf("%s: %v, %v", when, found, err)
			}
		}
		want("at first", 1e-6, 1110e-6, nil)
		merge(r.skillID("pdf"))
		want("merged", 1111e-6, nil, 111e-6)
		r.pay(costs.Request{Session: "s", Turn: "3", Skill: "acme:pdf", Micros: paid(10_000), At: at(7)})
		want("merged, and paid again", 11_111e-6, nil, 10_111e-6)
		merge(nil)
		want("unmerged", 1e-6, 11_110e-6, nil)
	})
}

// TestBackfilledSession: requests that came before the backfill of their session's
// version and grade follow it.
func TestBackfilledSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.skills.Jobs = r.World.Queue
		at := time.Now().Add(-time.Hour)
		r.send(skills.Report{
			Observations: []skills.Observation{
				{ID: "a", SkillName: "pdf", Session: "s", VersionHash: "2", Triggered: true, At: at, NormalizedAt: at},
			},
			Gradings: []skills.Grading{{ID: "g", SkillName: "pdf", Session: "s", PassRate: new(float64(1)), At: at}},
		}, costs.Report{})
		// As versions before 35 left it.
		r.World.Exec(`UPDATE skill_session_days SET skill_key = NULL, version_id = NULL`)
		r.World.Exec(`UPDATE skill_gradings SET version_id = NULL, rated_at = NULL`)
		r.World.Exec(`DELETE FROM skill_session_grades`)
		r.World.Exec(`INSERT INTO skill_backfill (step, after_id) VALUES ('observations', ''), ('gradings', '')`)
		r.pay(costs.Request{Session: "s", Turn: "1", Skill: "pdf", Micros: paid(7), At: at})
		want := func(when string, days int) {
			t.Helper()
			version := versionOf(r.skillID("pdf"), "2")
			if n := r.World.Count(`cost_days WHERE subject_id = '` + version + `' AND micros = 7 AND graded_micros = 7`); n != days {
				t.Errorf("%s: %d days of the version, want %d", when, n, days)
			}
		}
		want("at first", 0)
		r.skills.Register()
		defer r.World.Work()()
		apptest.Eventually(t, "the backfill", func() bool { return r.World.Count("skill_backfill") == 0 })
		want("after the backfill", 1)
		if found, err := r.costs.Check(t.Context(), db); err != nil || found[0].Status != invariants.Good {
			t.Errorf("%v, %v", found, err)
		}
	})
}

// TestBackfilledVersion: what was paid for in a session moves to the version that it
// activated last.
func TestBackfilledVersion(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.skills.Jobs = r.World.Queue
		at := time.Now().Add(-time.Hour)
		activated := func(id, version string, at time.Time) skills.Observation {
			return skills.Observation{ID: id, SkillName: "pdf", Session: "s", VersionHash: version, Triggered: true, At: at, NormalizedAt: at}
		}
		r.send(skills.Report{Observations: []skills.Observation{activated("a", "1", at)}}, costs.Report{})
		r.pay(costs.Request{Session: "s", Turn: "1", Skill: "pdf", Micros: paid(7), At: at})
		// As versions before 120 left it: the later activation did not move what was paid.
		err := r.World.DB.InTx(t.Context(), func(tx *store.Tx) error {
			of := skills.Report{
				OrgID: r.Org.ID, UserID: r.User.ID, Observations: []skills.Observation{activated("b", "2", at.Add(time.Minute))},
			}
			return r.skills.Observe(t.Context(), tx, of, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		r.World.Exec(`INSERT INTO skill_backfill (step, after_id) VALUES ('last_gradings', ''), ('last_versions', '')`)
		want := func(when, version string) {
			t.Helper()
			subject := versionOf(r.skillID("pdf"), version)
			if n := r.World.Count(`cost_days WHERE subject_id = '` + subject + `' AND micros = 7`); n != 1 {
				t.Errorf("%s: %d days of version %s, want 1", when, n, version)
			}
		}
		want("at first", "1")
		r.skills.Register()
		defer r.World.Work()()
		apptest.Eventually(t, "the backfill", func() bool { return r.World.Count("skill_backfill") == 0 })
		want("after the backfill", "2")
		if found, err := r.costs.Check(t.Context(), db); err != nil || found[0].Status != invariants.Good {
			t.Errorf("%v, %v", found, err)
		}
	})
}
