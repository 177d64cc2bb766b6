package skills_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// TestMergeInAnyOrder: the numbers do not depend on the order in which the reports
// of one observation arrive, nor on how they are split into requests.
func TestMergeInAnyOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		number := 0
		base := time.Now().UTC().Truncate(24 * time.Hour)
		rapid.Check(t, func(rt *rapid.T) {
			reports := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) observation {
				o := observation{
					Session: rapid.SampledFrom([]string{"", "s", "t"}).Draw(rt, "session"),
					Mode:    rapid.SampledFrom([]string{"", "explicit", "implicit", "inferred"}).Draw(rt, "mode"),
					Offered: rapid.Bool().Draw(rt, "offered"), Triggered: rapid.Bool().Draw(rt, "triggered"),
					Derived:      rapid.Bool().Draw(rt, "derived"),
					At:           base.Add(time.Duration(rapid.IntRange(-2, 2).Draw(rt, "day")) * 12 * time.Hour),
					NormalizedAt: base.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "age")) * time.Hour),
					SkillName:    rapid.SampledFrom([]string{"pdf", "tables"}).Draw(rt, "skill"),
				}
				if c := rapid.SampledFrom([]float64{-1, 0.5, 0.7}).Draw(rt, "confidence"); c >= 0 {
					o.Confidence = &c
				}
				return o
			}), 2, 5).Draw(rt, "reports")
			figures := func(all []observation, alone bool) []any {
				number++
				name := fmt.Sprint("of ", number, " ")
				for i := range all {
					all[i].ID = r.id(name)
					all[i].SkillName = name + all[i].SkillName[len(all[i].SkillName)-3:]
				}
				if alone {
					for _, o := range all {
						r.observe(o)
					}
				} else {
					r.observe(all...)
				}
				var found []any
				for _, skill := range []string{name + "pdf", name + "les"} {
					answer := r.Get("/v1/skills/" + url.PathEscape(skill) + "?days=4").Object()
					if skill, ok := answer["skill"].(object); ok {
						delete(skill, "skill_id")
						delete(skill, "name")
					}
					found = append(found, answer["skill"], answer["daily_stats"])
				}
				return found
			}
			clone := func(all []observation) []observation { return append([]observation{}, all...) }
			want := figures(clone(reports), false)
			if diff := cmp.Diff(want, figures(rapid.Permutation(reports).Draw(rt, "order"), true)); diff != "" {
				rt.Errorf("in another order (-want +got):\n%s", diff)
			}
		})
		r.wantNoFindings()
	})
}

// wantNoFindings compares the rollups with a recount.
func (r *room) wantNoFindings() {
	r.T.Helper()
	findings, err := r.s.Check(r.T.Context(), r.World.DB)
	if err != nil {
		r.T.Fatalf("%v", err)
	}
	for _, f := range findings {
		if f.Status != invariants.Good {
			r.T.Errorf("%+v", f)
		}
	}
}

// TestGradingFollowsItsSession: a grading counts for the version whose hash the
// session's activation names, whichever of the two arrives first.
func TestGradingFollowsItsSession(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		versions := r.publish("pdf", time.Now().Add(-time.Hour))
		other := versions[1] // never current until now
		activation := func(session string) observation {
			return r.check(session, func(o *observation) { o.Session, o.VersionHash = session, other.ContentHash })
		}
		grading := func(session string) skills.Report {
			rate := 1.0
			return skills.Report{Gradings: []skills.Grading{{
				ID: r.id("grading of " + session), SkillName: "pdf", Session: session, PassRate: &rate, At: time.Now(),
			}}}
		}
		r.observe(activation("activated first"))
		r.report(grading("activated first"))
		r.report(grading("graded first"))
		r.observe(activation("graded first"))
		quality, err := r.s.Quality(t.Context(), db, []string{versions[0].ID, other.ID})
		if err != nil {
			t.Fatal(err)
		}
		rate, pushed := 1.0, basis.Pushed
		want := skills.Quality{
			Sessions: 2, TriggerRate: &rate, PassRate: &rate, GradedSessions: 2, Bases: skills.Bases{Hash: 2},
			PassRates: basis.Rates{Basis: &pushed, PassRate: map[basis.Basis]float64{pushed: 1}, Sessions: map[basis.Basis]int64{pushed: 2}},
		}
		if diff := cmp.Diff(want, quality[other.ID]); diff != "" {
			t.Errorf("the version that was used (-want +got):\n%s", diff)
		}
		if got := quality[versions[0].ID]; got.GradedSessions != 0 {
			t.Errorf("the version that was current: %+v", got)
		}
		// Moved to another version, the activation takes the grading along.
		r.observe(r.check("graded first", func(o *observation) {
			o.Session, o.VersionHash, o.NormalizedAt = "graded first", versions[0].ContentHash, time.Now().Add(time.Hour)
		}))
		quality, err = r.s.Quality(t.Context(), db, []string{versions[0].ID, other.ID})
		if err != nil || quality[other.ID].GradedSessions != 1 || quality[versions[0].ID].GradedSessions != 1 {
			t.Errorf("after a move: %+v, %v", quality, err)
		}
		r.wantNoFindings()
	})
}

// TestBackfill: rows as older versions wrote them get what they lack.
func TestBackfill(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		versions := r.publish("pdf", time.Now().Add(-time.Hour))
		rate := 1.0
		r.report(skills.Report{
			Observations: []skills.Observation{
				r.check("activation", func(o *observation) { o.VersionHash = versions[1].ContentHash }),
				r.check("offer", func(o *observation) { o.Session, o.Offered = "offered", true }),
			},
			Gradings: []skills.Grading{{ID: r.id("grading"), SkillName: "pdf", Session: "s", PassRate: &rate, At: time.Now()}},
		})
		want := r.skill("pdf")
		quality := func() skills.Quality {
			all, err := r.s.Quality(t.Context(), db, []string{versions[1].ID})
			if err != nil {
				t.Fatal(err)
			}
			return all[versions[1].ID]
		}
		wantQuality := quality()

		r.World.Exec(`UPDATE skill_observations SET until_at = NULL`)
		r.World.Exec(`UPDATE skill_session_days SET offers = 0, skill_key = NULL, version_id = NULL`)
		r.World.Exec(`UPDATE skill_days SET last_offered_sessions = 0`)
		r.World.Exec(`UPDATE skill_gradings SET version_id = $1, rated_at = NULL`, versions[0].ID)
		r.World.Exec(`UPDATE skill_days SET graded_sessions = 0, pass_rate_sum = 0 WHERE subject_id = $1`, versions[1].ID)
		r.World.Exec(`UPDATE skill_totals SET graded_sessions = 0 WHERE subject_id = $1`, versions[1].ID)
		r.World.Exec(`DELETE FROM skill_session_grades`)
		r.World.Exec(`UPDATE skill_days SET graded_sessions = 0, pass_rate_sum = 0 WHERE subject_id <> $1`, versions[1].ID)
		r.World.Exec(`UPDATE skill_totals SET graded_sessions = 0 WHERE subject_id <> $1`, versions[1].ID)
		r.World.Exec(`INSERT INTO skill_backfill (step, after_id) VALUES ('observations', ''), ('gradings', '')`)
		if quality().GradedSessions != 0 {
			t.Fatal("the rows were not damaged")
		}
		for range 2 { // it may run twice
			if err := r.s.Backfill(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := r.World.Count("skill_backfill"); n != 0 {
			t.Errorf("%d steps are left", n)
		}
		if diff := cmp.Diff(want, r.skill("pdf")); diff != "" {
			t.Errorf("the skill (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(wantQuality, quality()); diff != "" {
			t.Errorf("its version (-want +got):\n%s", diff)
		}
		r.wantNoFindings()
	})
}
