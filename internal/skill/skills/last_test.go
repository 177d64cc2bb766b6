package skills_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// gradedVersions returns the versions that the grades of a skill's sessions count for:
// in the evidence of alerts, and then by the rollups of these versions.
func (r *room) gradedVersions(skill string, all ...string) (versions []string) {
	r.T.Helper()
	sessions, err := skills.GradedSince(r.T.Context(), r.World.DB, r.idOf(skill), time.Unix(0, 0), 100)
	if err != nil {
		r.T.Fatalf("%v", err)
	}
	for _, s := range sessions {
		versions = append(versions, s.VersionID)
	}
	quality, err := r.s.Quality(r.T.Context(), r.World.DB, all)
	if err != nil {
		r.T.Fatalf("%v", err)
	}
	for _, id := range all {
		for range quality[id].GradedSessions {
			versions = append(versions, id)
		}
	}
	return versions
}

// TestLastActivation: the grade of a session counts for the version that it activated
// last, whichever id is higher and in whatever order the reports come.
func TestLastActivation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		base := newRoom(t, db)
		noon := time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour)
		for round, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 3, 0, 1}, {1, 0, 3, 2}} {
			for last := range 2 {
				r := base.org(fmt.Sprint("org ", round, last))
				versions := r.publish("pdf", noon.Add(-time.Hour))
				activated := func(id string, version int, at time.Time) func() {
					return func() {
						r.observe(r.check(id, func(o *observation) { o.VersionHash, o.At = versions[version].ContentHash, at }))
					}
				}
				rate := 0.0
				steps := []func(){
					activated("first", last, noon),
					activated("second", 1-last, noon.Add(time.Minute)),
					activated("third", last, noon.Add(2*time.Minute)), // e.g. after a rollback
					func() {
						r.report(skills.Report{Gradings: []skills.Grading{
							{ID: r.id("g"), SkillName: "pdf", Session: "s", PassRate: &rate, At: noon.Add(3 * time.Minute)},
						}})
					},
				}
				for range 2 { // repeated, nothing changes
					for _, i := range order {
						steps[i]()
					}
				}
				want := []string{versions[last].ID, versions[last].ID}
				if diff := cmp.Diff(want, r.gradedVersions("pdf", versions[0].ID, versions[1].ID)); diff != "" {
					t.Errorf("order %v, version %d last (-want +got):\n%s", order, last, diff)
				}
			}
		}
		base.wantNoFindings()
	})
}

// TestActivationWithoutVersion: a session that activated the skill before it had a
// version cannot have used the one that was current when it was graded.
func TestActivationWithoutVersion(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		now := time.Now()
		versions := r.publish("pdf", now.Add(-time.Hour))
		before := func(o *observation) { o.At = now.Add(-2 * time.Hour) }
		rate := 0.0
		grade := func(session string) skills.Grading {
			return skills.Grading{ID: r.id(session), SkillName: "pdf", Session: session, PassRate: &rate, At: now}
		}
		r.observe(r.check("a", before))
		r.report(skills.Report{Gradings: []skills.Grading{grade("s"), grade("unseen")}})
		want := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, r.gradedVersions("pdf", versions[0].ID)[2:]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		want("graded later", versions[0].ID) // the session of which no activation is known
		// An activation without a version, after one with it, says nothing about the version.
		r.observe(r.check("b", before, func(o *observation) { o.VersionHash, o.At = versions[0].ContentHash, now.Add(-3*time.Hour) }))
		want("an earlier activation with a version", versions[0].ID, versions[0].ID)
		r.wantNoFindings()
	})
}

// TestBackfillOfLastActivation: grades of sessions that activated two versions on one
// day move to the last one, once.
func TestBackfillOfLastActivation(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		now := time.Now().Add(-time.Hour)
		versions := r.publish("pdf", now.Add(-time.Hour))
		rate := 0.0
		r.observe(
			r.check("a", func(o *observation) { o.VersionHash, o.At = versions[1].ContentHash, now.Add(-time.Minute) }),
			r.check("b", func(o *observation) { o.VersionHash, o.At = versions[0].ContentHash, now }),
		)
		r.report(skills.Report{Gradings: []skills.Grading{{ID: r.id("g"), SkillName: "pdf", Session: "s", PassRate: &rate, At: now}}})
		want := r.gradedVersions("pdf", versions[0].ID, versions[1].ID)
		// As versions before 120 left it: the grade counts for the other version.
		r.World.Exec(`UPDATE skill_gradings SET version_id = $1`, versions[1].ID)
		for i, n := range []int{-1, 1} {
			r.World.Exec(`UPDATE skill_days SET graded_sessions = graded_sessions + $2 WHERE subject_id = $1 AND sessions > 0`, versions[i].ID, n)
			r.World.Exec(`UPDATE skill_totals SET graded_sessions = graded_sessions + $2 WHERE subject_id = $1`, versions[i].ID, n)
		}
		r.World.Exec(`UPDATE skill_session_grades SET session_key = $1 WHERE session_key = $2`,
			skills.SessionKey(versions[1].ID, skills.SessionHash(r.User.ID, "s")), skills.SessionKey(versions[0].ID, skills.SessionHash(r.User.ID, "s")))
		if cmp.Equal(want, r.gradedVersions("pdf", versions[0].ID, versions[1].ID)) {
			t.Fatal("the rows were not damaged")
		}
		r.World.Exec(`INSERT INTO skill_backfill (step, after_id) VALUES ('last_gradings', ''), ('last_versions', '')`)
		for range 2 { // it may run twice
			if err := r.s.Backfill(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := r.World.Count("skill_backfill"); n != 0 {
			t.Errorf("%d steps are left", n)
		}
		if diff := cmp.Diff(want, r.gradedVersions("pdf", versions[0].ID, versions[1].ID)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		r.wantNoFindings()
	})
}
