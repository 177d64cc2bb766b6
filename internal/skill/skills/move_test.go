package skills_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

// patch changes a skill, without the job that moves what was reported of it.
func (r *room) patch(skill string, body object) {
	r.T.Helper()
	r.Do(http.MethodPatch, "/v1/skills/"+skill, body).Want(http.StatusOK)
}

// move does what the job of a merge does.
func (r *room) move(skill string) {
	r.T.Helper()
	c := &curate.Service{DB: r.World.DB, Skills: r.s}
	if err := c.Move(r.T.Context(), r.Org.ID, r.idOf(skill), ""); err != nil {
		r.T.Fatalf("%v", err)
	}
}

func (r *room) idOf(skill string) string { return r.skill(skill)["skill_id"].(string) }

// wantRecount checks all rollups.
func (r *room) wantRecount(when string) {
	r.T.Helper()
	found, err := r.s.Check(r.T.Context(), r.World.DB)
	if err != nil || len(found) != 1 || found[0].Status != invariants.Good {
		r.T.Errorf("%s: %v, %v", when, found, err)
	}
}

// TestMerge: everything that is reported of a skill counts for the one that it is
// merged into, and for itself again when that is taken back.
func TestMerge(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		named := func(name string) func(*observation) { return func(o *observation) { o.SkillName = name } }
		r.observe(r.check("a"), r.check("b", named("acme:pdf")))
		r.grade("acme:pdf", time.Now(), 0)
		r.grade("pdf", time.Now(), 1)
		r.patch("acme:pdf", object{"merged_into": r.idOf("pdf")})
		r.wantNames("", "pdf")
		r.wantNames("?merged=true", "acme:pdf")
		r.observe(r.check("c", named("acme:pdf"), func(o *observation) { o.Session = "t" }))
		wantFields(t, r.skill("pdf"), object{"unique_sessions": 2, "graded_sessions": 1})
		r.wantRecount("before the move")
		r.move("acme:pdf")
		r.wantRecount("after the move")
		wantFields(t, r.skill("pdf"), object{"unique_sessions": 2, "graded_sessions": 2, "pass_rate": 0.5})
		wantFields(t, r.today("pdf"), object{"checks": 3, "sessions": 2})
		wantFields(t, r.skill("acme:pdf"), object{"unique_sessions": 0, "merged_into": r.idOf("pdf")})

		r.patch("acme:pdf", object{"merged_into": nil})
		r.move("acme:pdf")
		r.wantRecount("after the move back")
		wantFields(t, r.skill("pdf"), object{"unique_sessions": 1, "graded_sessions": 1, "pass_rate": 1.0})
		wantFields(t, r.skill("acme:pdf"), object{"unique_sessions": 2, "graded_sessions": 1, "pass_rate": 0.0, "merged_into": nil})
		r.wantNames("", "acme:pdf pdf")
	})
}

// TestMergeRandomly: merges and moves between any reports leave the rollups exact,
// and when all are taken back, nothing is different from having had none.
func TestMergeRandomly(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		rooms := newRoom(t, db)
		for seed := range uint64(6) {
			random := rand.New(rand.NewPCG(seed, 1))
			r := rooms.org(fmt.Sprint("merged ", seed))
			plain := r.org(fmt.Sprint("plain ", seed))
			names := []string{"pdf", "acme:pdf", "csv", "wizard"}
			for _, c := range []*room{r, plain} {
				for _, name := range names {
					resolve(t, db, c.Org.ID, name)
				}
				c.publish("csv", time.Now().Add(-20*24*time.Hour))
			}
			pairs := [][2]*room{{r, plain}, {r.member(access.Member), plain.member(access.Member)}}
			now := time.Now()
			for step := range 60 {
				at := now.Add(-time.Duration(random.IntN(30*24)) * time.Hour)
				id, name, session := fmt.Sprint(random.IntN(20)), names[random.IntN(4)], fmt.Sprint("s", random.IntN(6))
				call, fired, rate, offered := fmt.Sprint("call ", random.IntN(10)), random.IntN(2) == 0, random.Float64(), random.IntN(5) == 0
				who := pairs[random.IntN(2)]
				switch random.IntN(6) {
				case 0, 1, 2:
					for _, c := range who {
						o := c.check(id+session, func(o *observation) {
							o.SkillName, o.Session, o.Triggered, o.Offered, o.At, o.NormalizedAt = name, session, fired, offered, at, at
						})
						if id > "5" { // another producer may report the same call, under another name
							o.Aliases = []string{c.id(call)}
						}
						c.observe(o)
					}
				case 3:
					for _, c := range who {
						c.report(skills.Report{Gradings: []skills.Grading{{
							ID: c.id("grading " + id), SkillName: name, Session: session, PassRate: &rate, At: at,
						}}})
					}
				case 4:
					body := object{"merged_into": nil}
					if fired {
						body["merged_into"] = r.idOf(names[random.IntN(4)])
					}
					r.Do(http.MethodPatch, "/v1/skills/"+name, body) // some are refused
				case 5:
					r.move(name)
				}
				if step%10 == 0 {
					r.wantRecount(fmt.Sprintf("seed %d, step %d", seed, step))
				}
			}
			for _, name := range names {
				r.patch(name, object{"merged_into": nil})
				r.move(name)
			}
			r.wantRecount(fmt.Sprint("seed ", seed))
			for _, name := range names {
				want, got := plain.Get("/v1/skills/"+name).Object(), r.Get("/v1/skills/"+name).Object()
				delete(want["skill"].(object), "skill_id")
				delete(got["skill"].(object), "skill_id")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("seed %d, %s (-without merges +with):\n%s", seed, name, diff)
				}
			}
		}
	})
}
