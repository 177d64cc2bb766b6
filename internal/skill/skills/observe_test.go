package skills_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/inuse"
)

type observation = skills.Observation

func TestObserveNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		if touched := newRoom(t, db).report(skills.Report{}); len(touched) != 0 {
			t.Errorf("touched %v", touched)
		}
		if n := count(t, db); n != 0 {
			t.Errorf("%d skills", n)
		}
	})
}

// TestOffered: a skill that was only offered is seen by the session like one that
// was considered, but it is not a check.
func TestOffered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		offered := func(o *observation) { o.Offered, o.Triggered = true, true }
		r.observe(r.check("a", offered))
		wantFields(t, r.skill("pdf"), object{"unique_sessions": 1, "trigger_rate": 0.0, "confidence_coverage": nil})
		wantFields(t, r.today("pdf"), object{"sessions": 1, "checks": 0, "triggers": 0})

		r.observe(r.check("b"))
		wantFields(t, r.skill("pdf"), object{"unique_sessions": 1, "trigger_rate": 1.0})
		wantFields(t, r.today("pdf"), object{"sessions": 1, "checks": 1, "triggers": 1})

		// One observation with both, the offer last.
		r.observe(r.check("b", offered, func(o *observation) { o.NormalizedAt = time.Now().Add(time.Hour) }))
		wantFields(t, r.today("pdf"), object{"sessions": 1, "checks": 1, "triggers": 1})
		// And the offer first.
		r.observe(r.check("a", func(o *observation) { o.NormalizedAt = time.Now().Add(-time.Hour) }))
		wantFields(t, r.today("pdf"), object{"sessions": 1, "checks": 2, "triggers": 2})
	})
}

// TestCounter: a counter reports many checks without a session.
func TestCounter(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		counter := func(n int64) observation {
			return r.check("counter", func(o *observation) { o.Session, o.Weight, o.Confidence = "", n, share(0.6) })
		}
		r.observe(counter(3))
		wantFields(t, r.skill("pdf"),
			object{"unique_sessions": 0, "trigger_rate": nil, "avg_confidence": 0.6, "confidence_coverage": 1.0})
		wantFields(t, r.today("pdf"), object{"sessions": 0, "checks": 3, "triggers": 3})
		r.observe(counter(5))
		wantFields(t, r.today("pdf"), object{"sessions": 0, "checks": 5, "triggers": 5})
		r.observe(counter(1), r.check("in a session", func(o *observation) { o.Triggered = false }))
		wantFields(t, r.today("pdf"), object{"sessions": 1, "checks": 2, "triggers": 1, "trigger_rate": 0.0})
	})
}

// TestMeanIsExact: the mean of equal numbers is that number.
func TestMeanIsExact(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		for _, id := range []string{"a", "b", "c"} {
			r.observe(r.check(id, func(o *observation) { o.Confidence = share(0.1) }))
		}
		wantFields(t, r.skill("pdf"), object{"avg_confidence": 0.1})
	})
}

// report is one of several reports, and the number of checks afterwards.
type report struct {
	id, claim, alias string
	checks           int
}

func (p report) observation(r *room) observation {
	return r.check(p.id, func(o *observation) {
		if p.alias != "" {
			o.Aliases = []string{r.id(p.alias)}
		}
		if p.claim != "" {
			o.Claim = r.id(p.claim)
		}
	})
}

// TestAliases: reports of one tool call are one observation, in any order, but two
// records of one producer are two.
func TestAliases(t *testing.T) {
	cases := map[string][]report{
		"one call":   {{"log", "", "call", 1}, {"span", "", "call", 1}, {"span", "", "", 1}, {"log", "", "", 1}},
		"two calls":  {{"log", "", "call", 1}, {"span", "", "other", 2}},
		"late alias": {{"log", "", "", 1}, {"span", "", "call", 2}, {"log", "", "call", 1}, {"log", "", "", 1}},
		"two records": {
			{"record 1", "one", "call", 1},
			{"record 2", "one", "call", 2},
			{"record 1", "one", "call", 2},
			{"record 2", "one", "call", 2},
		},
		"two records and a log": {
			{"record 1", "one", "call", 1},
			{"record 2", "one", "call", 2},
			{"log", "", "call", 2},
		},
		"a log and two records": {
			{"log", "", "call", 1},
			{"record 1", "one", "call", 1},
			{"record 2", "one", "call", 2},
			{"record 1", "one", "call", 2},
			{"log", "", "call", 2},
		},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		room := newRoom(t, db)
		for name, reports := range cases {
			t.Run(name, func(t *testing.T) {
				apart, together := room.org(name), room.org(name+" in one report")
				var all []observation
				for _, p := range reports {
					apart.observe(p.observation(apart))
					wantFields(t, apart.today("pdf"), object{"checks": p.checks, "sessions": 1})
					all = append(all, p.observation(together))
				}
				together.observe(all...)
				wantFields(t, together.today("pdf"), object{"checks": reports[len(reports)-1].checks})
			})
		}
	})
}

// TestRename moves an observation from one skill to another.
func TestRename(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		named := func(name string, at time.Time) observation {
			return r.check("a", func(o *observation) { o.SkillName, o.NormalizedAt = name, at })
		}
		now := time.Now()
		pdf := r.observe(named("pdf", now))
		both := r.observe(named("xlsx", now.Add(time.Minute)))
		xlsx := r.skill("xlsx")["skill_id"].(string)
		if diff := cmp.Diff(sorted(pdf[0], xlsx), both); diff != "" {
			t.Errorf("touched (-want +got):\n%s", diff)
		}
		wantFields(t, r.skill("pdf"),
			object{"unique_sessions": 0, "trigger_rate": nil, "first_seen_at": nil, "last_seen_at": nil})
		wantFields(t, r.skill("xlsx"), object{"unique_sessions": 1, "trigger_rate": 1.0})
		wantFields(t, r.today("pdf"), object{"sessions": 0, "checks": 0})

		// An older report does not move it back.
		r.observe(named("pdf", now))
		wantFields(t, r.skill("pdf"), object{"unique_sessions": 0})
		wantFields(t, r.skill("xlsx"), object{"unique_sessions": 1})
	})
}

// TestMergeInOneReport: reports give the same result one by one or together.
func TestMergeInOneReport(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		now := time.Now()
		said := func(r *room, minutes int, confidence *float64) observation {
			return r.check("a", func(o *observation) {
				o.NormalizedAt, o.Confidence = now.Add(time.Duration(minutes)*time.Minute), confidence
			})
		}
		apart := newRoom(t, db)
		apart.observe(said(apart, 2, share(0.2)))
		apart.observe(said(apart, 1, share(0.1)))
		apart.observe(said(apart, 3, nil))
		together := apart.org("other")
		together.observe(said(together, 2, share(0.2)))
		together.observe(said(together, 1, share(0.1)), said(together, 3, nil))
		for _, r := range []*room{apart, together} {
			wantFields(t, r.skill("pdf"), object{"avg_confidence": 0.2})
		}
	})
}

// TestMovedTime moves an observation to another day and back.
func TestMovedTime(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		now := time.Now().UTC().Truncate(time.Millisecond)
		at := func(days, said int) observation {
			return r.check("a", func(o *observation) {
				o.At, o.NormalizedAt = now.AddDate(0, 0, days), now.Add(time.Duration(said)*time.Minute)
			})
		}
		seen := func(days int) string { return now.AddDate(0, 0, days).Format("2006-01-02T15:04:05.000Z") }
		r.observe(at(0, 0))
		r.observe(at(-40, 1))
		wantFields(t, r.skill("pdf"), object{
			"unique_sessions": 1, "trigger_rate": nil, "first_seen_at": seen(-40), "last_seen_at": seen(-40),
		})
		wantFields(t, r.today("pdf"), object{"sessions": 0, "checks": 0})
		r.observe(at(-1, 2))
		wantFields(t, r.skill("pdf"), object{
			"unique_sessions": 1, "trigger_rate": 1.0, "first_seen_at": seen(-1), "last_seen_at": seen(-1),
		})
	})
}

// TestGradings: the grade of a session is the mean of its gradings, on the day of
// the newest with a verdict.
func TestGradings(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		now := time.Now()
		grading := func(id, session string, days int, rate *float64) skills.Grading {
			return skills.Grading{ID: r.id(id), SkillName: "pdf", Session: session, PassRate: rate, At: now.AddDate(0, 0, days)}
		}
		steps := []struct {
			name   string
			report []skills.Grading
			want   object
		}{
			{"no verdict", []skills.Grading{grading("1", "a", 0, nil)}, object{"has_evidence": false, "graded_sessions": 0, "pass_rate": nil, "pass_rate_interval": nil}},
			{"now there is one", []skills.Grading{grading("1", "a", 0, share(1))}, object{"has_evidence": true, "graded_sessions": 1, "pass_rate": 1.0}},
			{"a second of the session", []skills.Grading{grading("2", "a", -1, share(0))}, object{"graded_sessions": 1, "pass_rate": 0.5}},
			{"another session", []skills.Grading{grading("3", "b", 0, share(1))}, object{"graded_sessions": 2, "pass_rate": 0.75}},
			{"null changes nothing", []skills.Grading{grading("3", "b", 0, nil)}, object{"graded_sessions": 2, "pass_rate": 0.75}},
			{"changed", []skills.Grading{grading("3", "b", 0, share(0.5))}, object{"graded_sessions": 2, "pass_rate": 0.5}},
			{"late", []skills.Grading{grading("3", "b", -1, share(0))}, object{"graded_sessions": 2, "pass_rate": 0.5}},
			{"out of the window", []skills.Grading{grading("4", "c", -30, share(0))}, object{"graded_sessions": 2, "pass_rate": 0.5}},
			{"no session", []skills.Grading{grading("5", "", 0, share(1)), grading("6", "", 0, share(1))}, object{"graded_sessions": 4, "pass_rate": 0.75}},
		}
		for _, s := range steps {
			r.report(skills.Report{Gradings: s.report})
			t.Run(s.name, func(t *testing.T) { wantFields(t, r.skill("pdf"), s.want) })
		}
		wantFields(t, r.skill("pdf"), object{"unique_sessions": 0, "last_seen_at": nil, "trigger_rate": nil})
	})
}

// TestVersions: an observation is attributed to the version with its content hash,
// else to the one that was current.
func TestVersions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		now := time.Now()
		since := now.Add(-time.Hour)
		versions := r.publish("pdf", since)
		second := versions[1].ContentHash
		said := func(id, hash string, at time.Time, minute int, name string) {
			r.observe(r.check(id, func(o *observation) {
				o.Session, o.VersionHash, o.At, o.SkillName = id, hash, at, name
				o.NormalizedAt = now.Add(time.Duration(minute) * time.Minute)
			}))
		}
		for _, s := range []struct {
			name string
			do   func()
			want [2]int64
		}{
			{"before there was one", func() { said("a", "", since.Add(-time.Second), 0, "pdf") }, [2]int64{0, 0}},
			{"the current one", func() { said("b", "", now, 0, "pdf") }, [2]int64{1, 0}},
			{"by its content", func() { said("c", second, now, 0, "pdf") }, [2]int64{1, 1}},
			{"by its content, long ago", func() { said("d", second, since.AddDate(0, 0, -50), 0, "pdf") }, [2]int64{1, 2}},
			{"unknown content", func() { said("e", "other", now, 0, "pdf") }, [2]int64{2, 2}},
			{"told later", func() { said("b", second, now, 1, "pdf") }, [2]int64{1, 3}},
			{"not said again", func() { said("b", "", now, 2, "pdf") }, [2]int64{1, 3}},
			{"late, of another name", func() { said("b", "", now, -1, "xlsx") }, [2]int64{1, 3}},
			{"renamed", func() { said("b", "", now, 3, "xlsx") }, [2]int64{1, 2}},
		} {
			s.do()
			quality, err := r.s.Quality(t.Context(), db, []string{versions[0].ID, versions[1].ID})
			if err != nil {
				t.Fatal(err)
			}
			if got := [2]int64{quality[versions[0].ID].Sessions, quality[versions[1].ID].Sessions}; got != s.want {
				t.Errorf("%s: %v sessions, want %v", s.name, got, s.want)
			}
		}
	})
}

// TestObserveAtOnce: concurrent reports of one observation, each for another
// skill, leave it with one of them.
func TestObserveAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		const rounds, names = 5, 6
		for round := range rounds {
			var wg sync.WaitGroup
			for i := range names {
				o := r.check(fmt.Sprint(round), func(o *observation) {
					o.SkillName, o.Session = fmt.Sprint("skill", i), fmt.Sprint(round)
				})
				wg.Go(func() { r.observe(o) })
			}
			wg.Wait()
		}
		var sessions, checks float64
		for i := range names {
			name := fmt.Sprint("skill", i)
			sessions += r.skill(name)["unique_sessions"].(float64)
			checks += r.today(name)["checks"].(float64)
		}
		if sessions != rounds || checks != rounds {
			t.Errorf("%v sessions and %v checks, want %d", sessions, checks, rounds)
		}
	})
}

// loaded is a hook that answers the same plugins always.
type loaded []inuse.Loaded

func (l *loaded) Loaded(_ context.Context, _ store.Querier, _ string, sessions []string) ([]inuse.Loaded, error) {
	return slices.DeleteFunc(slices.Clone(*l), func(one inuse.Loaded) bool { return !slices.Contains(sessions, one.Session) }), nil
}

// TestLoadedPlugins: a skill of a plugin has the version that the session had
// loaded by then, whichever is reported first, and so do the session's gradings.
func TestLoadedPlugins(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		world := newRoom(t, db)
		now := time.Now().UTC().Truncate(time.Second)
		for i, c := range []struct {
			name  string
			skill string
			loads []inuse.Loaded  // of the session, without its hash
			hash  bool            // the record names the hash of version 0
			want  [2]skills.Bases // of versions 0 and 1
		}{
			{"nothing loaded", "acme:pdf", nil, false, [2]skills.Bases{{Time: 1}, {}}},
			{"loaded", "acme:pdf", []inuse.Loaded{{Plugin: "acme", Version: "1", At: now.Add(-time.Minute)}}, false, [2]skills.Bases{{}, {Plugin: 1}}},
			{"by a clock that is ahead", "acme:pdf", []inuse.Loaded{{Plugin: "acme", Version: "1", At: now.Add(time.Minute)}}, false, [2]skills.Bases{{}, {Plugin: 1}}},
			{"an unknown version", "acme:pdf", []inuse.Loaded{{Plugin: "acme", Version: "2", At: now}}, false, [2]skills.Bases{{Time: 1}, {}}},
			{"without a version", "acme:pdf", []inuse.Loaded{{Plugin: "acme", At: now}}, false, [2]skills.Bases{{Time: 1}, {}}},
			{"another plugin", "acme:pdf", []inuse.Loaded{{Plugin: "other", Version: "1", At: now}}, false, [2]skills.Bases{{Time: 1}, {}}},
			{"a skill of no plugin", "pdf", []inuse.Loaded{{Plugin: "acme", Version: "1", At: now}}, false, [2]skills.Bases{{Time: 1}, {}}},
			{"the hash is known", "acme:pdf", []inuse.Loaded{{Plugin: "acme", Version: "1", At: now}}, true, [2]skills.Bases{{Hash: 1}, {}}},
			{"updated before", "acme:pdf", []inuse.Loaded{
				{Plugin: "acme", Version: "0", At: now.Add(-time.Hour)}, {Plugin: "acme", Version: "1", At: now},
			}, false, [2]skills.Bases{{}, {Plugin: 1}}},
			{"updated after", "acme:pdf", []inuse.Loaded{
				{Plugin: "acme", Version: "0", At: now.Add(-time.Hour)}, {Plugin: "acme", Version: "1", At: now.Add(time.Second)},
			}, false, [2]skills.Bases{{Plugin: 1}, {}}},
		} {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, late %v", c.name, late), func(t *testing.T) {
					r := world.org(fmt.Sprint("acme", i, late))
					plugins := &loaded{}
					r.s.Plugins = plugins
					versions := r.publish(c.skill, now.Add(-time.Hour))
					session := skills.SessionHash(r.User.ID, "s")
					load := func() {
						for _, l := range c.loads {
							l.Session = session
							*plugins = append(*plugins, l)
						}
						r.report(skills.Report{Reloaded: []string{session}})
					}
					if !late {
						load()
					}
					r.observe(r.check("a", func(o *observation) {
						if o.SkillName, o.At = c.skill, now; c.hash {
							o.VersionHash = versions[0].ContentHash
						}
					}))
					r.report(skills.Report{Gradings: []skills.Grading{
						{ID: r.id("g"), SkillName: c.skill, Session: "s", PassRate: share(1), At: now},
					}})
					if late {
						load()
					}
					quality, err := r.s.Quality(t.Context(), db, []string{versions[0].ID, versions[1].ID})
					if err != nil {
						t.Fatal(err)
					}
					for n, v := range versions {
						got, used := quality[v.ID], c.want[n] != skills.Bases{}
						if got.Bases != c.want[n] || (got.GradedSessions == 1) != used || (got.Sessions == 1) != used {
							t.Errorf("version %d has %+v, want %+v", n, got, c.want[n])
						}
					}
				})
			}
		}
	})
}
