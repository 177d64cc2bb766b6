package grades_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// A reported is an outcome as a client reports it.
type reported struct {
	id, name string
	at       int // seconds
	passed   bool
}

func (o reported) record(session string) object {
	return object{
		"outcome_id": o.id, "session_id": session, "outcome": o.name, "passed": o.passed,
		"occurred_at": yesterday().UTC().Truncate(24 * time.Hour).Add(time.Duration(o.at) * time.Second).Format(time.RFC3339),
	}
}

// TestReportedOutcomes: tests that passed in the end and commits of which none was
// lost are good outcomes, each with its weight.
func TestReportedOutcomes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		w.use(ada, "first", 0, 0)
		w.enable(ada, nil)
		const tests, commit = "tests_passed", "commit_survived"
		for session, c := range map[string]struct {
			calls  int
			all    []reported
			rate   float64
			groups []string
		}{
			"fixed":       {0, []reported{{"1", tests, 1, false}, {"2", tests, 2, true}}, 1, nil},
			"broken":      {0, []reported{{"1", tests, 2, false}, {"2", tests, 1, true}}, 0, []string{"outcome:tests_failed"}},
			"kept":        {0, []reported{{"1", commit, 1, true}, {"2", commit, 2, true}}, 1, nil},
			"reverted":    {0, []reported{{"1", commit, 1, false}, {"2", commit, 2, true}}, 0, []string{"outcome:commit_lost"}},
			"both":        {0, []reported{{"1", tests, 1, true}, {"1", commit, 1, false}}, 2.0 / 5, []string{"outcome:commit_lost"}},
			"all":         {1, []reported{{"1", tests, 1, false}, {"1", commit, 1, true}}, 4.0 / 6, []string{"outcome:tests_failed"}},
			"interrupted": {1, []reported{{"1", "interrupted", 1, false}, {"1", tests, 1, true}}, 3.0 / 5, []string{"outcome:interrupted"}},
		} {
			var records []object
			for _, o := range c.all {
				records = append(records, o.record(session))
			}
			w.use(ada, session, c.calls, 0, object{"outcomes": records})
			w.run(ada)
			got := w.grades(ada, session)
			if len(got) != 1 || fmt.Sprintf("%.8f", got[0]["pass_rate"]) != fmt.Sprintf("%.8f", c.rate) || got[0]["basis"] != "outcome" {
				t.Errorf("%s: grades %v, want %v", session, got, c.rate)
			}
			var keys []string
			for _, g := range ada.Get("/v1/skills/pdf/failures").List("groups") {
				for _, id := range g["sessions"].([]any) {
					if id == session {
						keys = append(keys, g["key"].(string))
					}
				}
			}
			if diff := cmp.Diff(c.groups, keys); diff != "" {
				t.Errorf("%s: failures (-want +got):\n%s", session, diff)
			}
		}
		w.wantSound()
	})
}

// TestOutcomesRandomly: outcomes that are reported in any order, in parts and again
// give the grade of a recount.
func TestOutcomesRandomly(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, nil)
		ada := w.Org("acme")
		w.use(ada, "first", 0, 0)
		w.enable(ada, nil)
		for round := range 12 {
			random := rand.New(rand.NewPCG(7, uint64(round)))
			session := fmt.Sprint("s", round)
			var told []reported
			for i := range 1 + random.IntN(8) {
				o := reported{fmt.Sprint(i), []string{"tests_passed", "commit_survived"}[random.IntN(2)], i, random.IntN(3) > 0}
				told = append(told, o)
				if random.IntN(4) == 0 { // the same, as it was known earlier
					o.passed = true
					told = append(told, o)
				}
			}
			want := recount(told)
			told = append(told, told[random.IntN(len(told)):]...)
			random.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
			for len(told) > 0 {
				n := 1 + random.IntN(len(told))
				var records []object
				for _, o := range told[:n] {
					records = append(records, o.record(session))
				}
				w.use(ada, session, 0, 0, object{"outcomes": records})
				if random.IntN(2) == 0 {
					w.run(ada)
				}
				told = told[n:]
			}
			w.run(ada)
			got := w.grades(ada, session)
			if len(got) != 1 || fmt.Sprintf("%.8f", got[0]["pass_rate"]) != fmt.Sprintf("%.8f", want) {
				t.Errorf("round %d: grades %v, want %v", round, got, want)
			}
		}
		w.wantSound()
	})
}

// recount returns the pass rate of outcomes: that of the last tests with a weight of
// 2, and whether no commit was lost with one of 3.
func recount(told []reported) float64 {
	passed := map[[2]string]bool{} // by name and id; a bad report outweighs a good one
	for _, o := range told {
		key := [2]string{o.name, o.id}
		before, known := passed[key]
		passed[key] = o.passed && (before || !known)
	}
	var good, all float64
	last, lost := reported{at: -1}, false
	for _, o := range told {
		o.passed = passed[[2]string{o.name, o.id}]
		if o.name == "tests_passed" && o.at >= last.at {
			last = o
		}
		lost = lost || o.name == "commit_survived" && !o.passed
	}
	if last.at >= 0 {
		if all += 2; last.passed {
			good += 2
		}
	}
	for _, o := range told {
		if o.name == "commit_survived" {
			if all += 3; !lost {
				good += 3
			}
			break
		}
	}
	return good / all
}
