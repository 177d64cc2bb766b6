package skills_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

func (r *room) wantNames(query, want string) {
	r.T.Helper()
	if got := names(r.Get("/v1/skills" + query)); got != want {
		r.T.Errorf("GET /v1/skills%s: %q, want %q", query, got, want)
	}
}

// calledInVain makes a check one that the agent refused.
func calledInVain(o *observation) { o.Unconfirmed, o.Triggered = true, false }

// TestUnconfirmed: a name waits until one real use is reported. Then its earlier
// calls are counted, too.
func TestUnconfirmed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		rooms := newRoom(t, db)
		for name, confirm := range map[string]func(r *room){
			"activation": func(r *room) { r.observe(r.check("b")) },
			"offer":      func(r *room) { r.observe(r.check("b", func(o *observation) { o.Offered = true })) },
			"denied":     func(r *room) { r.observe(r.check("b", func(o *observation) { o.Triggered = false })) },
			"grading":    func(r *room) { r.grade("pdf", time.Now(), 1) },
			"the same call": func(r *room) {
				r.observe(r.check("a", func(o *observation) { o.Triggered = true }))
			},
			"registry": func(r *room) { r.publish("pdf", time.Now()) },
		} {
			t.Run(name, func(t *testing.T) {
				r := rooms.org("confirmed by " + name).in(t)
				r.observe(r.check("a", calledInVain))
				r.wantNames("", "")
				r.wantNames("?sort=-pass_rate", "")
				r.wantNames("?confirmed=false", "pdf")
				r.wantNames("?confirmed=false&sort=-pass_rate", "pdf")
				wantFields(t, r.skill("pdf"), object{"confirmed": false, "unique_sessions": 1})
				if stats, err := r.s.WindowStats(t.Context(), db, r.Org.ID, 7); err != nil || len(stats) != 0 {
					t.Errorf("WindowStats %v, %v; want none", stats, err)
				}
				if all, err := r.s.Summaries(t.Context(), r.Org.ID); err != nil || len(all) != 0 {
					t.Errorf("Summaries %v, %v; want none", all, err)
				}
				confirm(r)
				r.wantNames("", "pdf")
				r.wantNames("?confirmed=false", "")
				wantFields(t, r.skill("pdf"), object{"confirmed": true})
				if checks := r.today("pdf")["checks"].(float64); checks < 1 {
					t.Errorf("%v checks, want the one before the skill was confirmed, too", checks)
				}
				r.observe(r.check("c", calledInVain))
				r.wantNames("", "pdf")
			})
		}
	})
}

// TestConfirmedAtOnce: of reports that name a new skill at the same time, one is
// enough to confirm it.
func TestConfirmedAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		people := make([]*room, 8)
		for i := range people {
			people[i] = r.member(access.Member)
		}
		var wg sync.WaitGroup
		for i := range people {
			wg.Go(func() {
				c := people[i]
				c.observe(c.check(fmt.Sprint(i), func(o *observation) { o.Unconfirmed = i != 5 }))
			})
		}
		wg.Wait()
		r.wantNames("", "pdf")
	})
}

// TestResolveUnconfirmed: to name a skill neither confirms it nor takes that back.
func TestResolveUnconfirmed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		id := resolve(t, db, r.Org.ID, "pdf")
		err := db.InTx(t.Context(), func(tx *store.Tx) error {
			ids, err := skills.ResolveUnconfirmed(t.Context(), tx, r.Org.ID, []string{"loop", "pdf"})
			if ids["pdf"] != id || ids["loop"] == "" {
				t.Errorf("ids %v, want %s for pdf and one for loop", ids, id)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		r.wantNames("", "pdf")
		r.wantNames("?confirmed=false", "loop")
	})
}
