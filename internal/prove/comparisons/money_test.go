package comparisons_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// prices are a dollar for a million tokens in, so that a token costs a millionth.
type prices struct{}

func (prices) Table(context.Context, string) (pricing.Table, error) {
	return pricing.Table{}.Before([]pricing.Model{{Match: "scripted", Input: 1}}), nil
}

// A priced arm is how a scripted model answers with a version of the skill, or without one.
type priced struct {
	text string
	cost int64 // millionths of a dollar
}

// askCost is what one question of preference costs; each pair is asked twice.
const askCost = 10

// A shop is a model that answers prompts by the skill that it is given, and prefers the output that
// is "right".
type shop struct {
	one, two, none priced
	prefer         func(a, b string) judgetest.Reply // a status in place of an answer; nil for an honest judge
	asked          atomic.Int64                      // questions of preference
	produced       atomic.Int64
}

func (s *shop) respond(r judgetest.Request) judgetest.Reply {
	if !strings.Contains(r.System, "You compare two results") {
		s.produced.Add(1)
		as := s.none
		switch {
		case strings.Contains(r.System, "version one"):
			as = s.one
		case strings.Contains(r.System, "version two"):
			as = s.two
		}
		return judgetest.Reply{Text: as.text, Input: as.cost}
	}
	s.asked.Add(1)
	a, b := between(r.User, "A"), between(r.User, "B")
	if s.prefer != nil {
		if reply := s.prefer(a, b); reply.Status != 0 {
			return reply
		}
	}
	better := "tie"
	switch {
	case strings.HasPrefix(a, "right") && !strings.HasPrefix(b, "right") || strings.HasPrefix(a, b) && a != b:
		better = "A"
	case strings.HasPrefix(b, "right") && !strings.HasPrefix(a, "right") || strings.HasPrefix(b, a) && a != b:
		better = "B"
	}
	answer, _ := json.Marshal(object{"reason": "It says so.", "quote_a": a, "quote_b": b, "better": better}) // strings
	return judgetest.Reply{Text: string(answer), Input: askCost}
}

// open starts a server whose runs ask the shop.
func (s *shop) open(t *testing.T, db *store.DB) (*runstest.World, *runstest.Client) {
	t.Helper()
	w := runstest.New(t, db, s.as(judgetest.New(t, s.respond)))
	return w, w.Org("acme")
}

func (s *shop) as(server *judgetest.Server) func(*runstest.World) {
	return func(w *runstest.World) {
		runstest.Scripted(server)(w)
		w.Runs.Prices, w.Runs.Concurrency = prices{}, 4
	}
}

// asks is a suite of n prompts whose answer must be "right", in a suite that can do without skills.
func asks(c *runstest.Client, n int) string {
	c.T.Helper()
	var cases []object
	for range n {
		cases = append(cases, object{
			"case_kind": "boolean_assertion", "prompt": "Write the report.", "assertion": `output.startsWith("right")`,
		})
	}
	return c.Create(apptest.With(runstest.Deterministic(cases...), object{"supports_no_skill": true}))["id"].(string)
}

func wantCost(t *testing.T, got *float64, micros int64) {
	t.Helper()
	if got == nil || math.Abs(*got-float64(micros)/1e6) > 1e-12 {
		t.Errorf("the cost is %s, want %d millionths of a dollar", show(got), micros)
	}
}

func show(v *float64) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(*v)
}

// TestOneBudget has one limit for all arms: an arm that costs nine times as much as the others may
// take what they leave, and no trial is started when nothing is left.
func TestOneBudget(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := &shop{one: priced{"right", 100}, two: priced{"right", 900}, none: priced{"right", 100}}
		w, c := s.open(t, db)
		w.Work()
		entry := c.Entry()
		body := func(suite string, usd float64) object {
			return object{"suite_id": suite, "trials": 1, "max_cost_usd": usd, "arms": []object{
				{"entry_id": entry, "version": "1.0.0"}, {"entry_id": entry}, {"no_skill": true},
			}}
		}
		// A third of the limit would stop the second arm after five cases.
		got := await(c, start(c, body(asks(c, 10), 0.012)))
		if got.Status != "succeeded" || got.Arms[1].Cases != 10 || got.Arms[2].Cases != 10 {
			t.Errorf("with enough for all arms, the comparison is %s: %+v", got.Status, got.Arms)
		}
		wantCost(t, got.CostUSD, 10*100+10*900+10*100)
		wantCost(t, got.Arms[1].CostUSD, 9000)
		wantCost(t, got.Arms[1].PerPass, 900)

		before := s.produced.Load()
		got = await(c, start(c, body(asks(c, 10), 0.005)))
		if got.Status != "budget_spent" || got.Recommendation.Kind != "none" || !strings.Contains(got.Recommendation.Reason, "spending limit") {
			t.Errorf("with too little, the comparison is %s and recommends %+v", got.Status, got.Recommendation)
		}
		if got.Arms[0].Cases != 10 || got.Arms[2].Cases != 0 || got.Arms[2].Score != nil {
			t.Errorf("the arms are %+v, want all cases in the first and none in the last", got.Arms)
		}
		// Once the limit is reached, no trial begins: the last one may exceed it.
		if got.CostUSD == nil || *got.CostUSD < 0.005 || *got.CostUSD >= 0.005+0.0009 {
			t.Errorf("it cost %s, want 0.005 and less than one trial more", show(got.CostUSD))
		}
		if made := s.produced.Load() - before; made != 10+5 {
			t.Errorf("%d trials were made, want 10 and then 5", made)
		}
		if n := w.Count("eval_runs WHERE status = 'budget_spent'"); n != 2 {
			t.Errorf("%d runs have spent the limit, want 2", n)
		}
	})
}

// TestBudgetOfPreference: the judge gets what the arms leave, and isn't asked when that is less
// than a question has cost.
func TestBudgetOfPreference(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "sqlite")
	s := &shop{one: priced{"wrong, and long enough to be cut", 100}, two: priced{"right, and long enough to be cut", 100}}
	w, c := s.open(t, db)
	w.Work()
	entry := c.Entry()
	// The arms take 2000. Ten pairs, and two controls, at 20 each.
	got := await(c, start(c, object{
		"suite_id": asks(c, 10), "trials": 1, "max_cost_usd": 0.00217, "preference": true,
		"arms": []object{{"entry_id": entry, "version": "1.0.0"}, {"entry_id": entry}},
	}))
	if got.Status != "budget_spent" || s.asked.Load() != 2*8 {
		t.Errorf("the comparison is %s after %d questions, want budget_spent after 16: 170 pays for 8 pairs", got.Status, s.asked.Load())
	}
	wantCost(t, got.CostUSD, 2000+8*2*askCost)
	if p := got.Pairs[0]; p.Verdict != "b_better" || p.Preference == nil || p.Preference.Wins == 0 {
		t.Errorf("what is known is lost: %+v", p)
	}
}

// TestRecommendations comes to each recommendation through the API, with exact costs.
func TestRecommendations(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		right, wrong := func(cost int64) priced { return priced{"right", cost} }, func(cost int64) priced { return priced{"wrong", cost} }
		s := &shop{}
		w, c := s.open(t, db)
		w.Work()
		entry := c.Entry()
		with, without := object{"entry_id": entry}, object{"no_skill": true}
		for _, r := range []struct {
			shop      *shop
			arms      []object
			kind, arm string
			perPass   []any // millionths; nil for none
		}{
			{&shop{two: right(300), none: wrong(100)}, []object{with, without}, "keep", "pdf 2.0.0", []any{300, nil}},
			{&shop{two: right(300), none: right(100)}, []object{with, without}, "retire", "no skill", []any{300, 100}},
			{&shop{two: right(300), one: right(40)}, []object{with, {"entry_id": entry, "version": "1.0.0"}}, "cheaper", "pdf 1.0.0", []any{300, 40}},
			{&shop{two: wrong(300), one: wrong(40)}, []object{with, {"entry_id": entry, "version": "1.0.0"}}, "none", "", []any{nil, nil}},
		} {
			s.one, s.two, s.none = r.shop.one, r.shop.two, r.shop.none
			got := await(c, start(c, object{"suite_id": asks(c, 12), "trials": 1, "margin": 0.4, "arms": r.arms}))
			arm := ""
			if got.Recommendation.Arm != nil {
				arm = *got.Recommendation.Arm
			}
			if got.Status != "succeeded" || got.Recommendation.Kind != r.kind || arm != r.arm {
				t.Errorf("the comparison is %s and recommends %+v, want %s %q", got.Status, got.Recommendation, r.kind, r.arm)
			}
			for i, a := range got.Arms {
				if r.perPass[i] == nil && a.PerPass != nil {
					t.Errorf("%s: without a pass, arm %s has the cost %v", r.kind, a.Name, *a.PerPass)
				} else if r.perPass[i] != nil {
					wantCost(t, a.PerPass, int64(r.perPass[i].(int)))
				}
			}
		}
	})
}

// TestCompareResumes stops the worker in the middle of the trials and of the questions: another one
// goes on, and nothing that was stored is paid for again.
func TestCompareResumes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := &shop{one: priced{"wrong, and long enough to be cut", 100}, two: priced{"right, and long enough to be cut", 300}}
		halted, stopped := make(chan struct{}), make(chan struct{})
		var at atomic.Int64 // the request at which the worker stops
		var requests atomic.Int64
		at.Store(9)
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			if requests.Add(1) == at.Load() {
				halted <- struct{}{}
				<-stopped
			}
			return s.respond(r)
		})
		w := runstest.New(t, db, s.as(server))
		c := w.Org("acme")
		entry := c.Entry()
		soon := jobs.Options{Drain: time.Millisecond}
		stop := w.Another(soon, s.as(server)).Work()
		started := start(c, object{
			"suite_id": asks(c, 8), "trials": 2, "preference": true, "max_cost_usd": 1,
			"arms": []object{{"entry_id": entry, "version": "1.0.0"}, {"entry_id": entry}},
		})
		for _, next := range []int64{60, 0} {
			<-halted
			stop()
			at.Store(next)
			close(stopped)
			stopped = make(chan struct{})
			stop = w.Another(soon, s.as(server)).Work()
		}
		got := await(c, started)
		if got.Status != "succeeded" {
			t.Fatalf("the comparison is %s: %v", got.Status, got.Error)
		}
		// 16 trials an arm; 16 pairs and 4 controls, each asked twice.
		wantCost(t, got.CostUSD, 16*100+16*300+20*2*askCost)
		if p := got.Pairs[0].Preference; p.Pairs != 16 || p.Wins != 8 || !p.Reliable {
			t.Errorf("the preference is %+v, want 8 wins of 16 pairs", *p)
		}
		// Only what was under way when a worker stopped is asked again: 4 requests at once, of which
		// one question of preference has two.
		if n := requests.Load(); n > 32+40+2*8 {
			t.Errorf("%d requests were made, want at most 88", n)
		}
	})
}

// TestJudgeDown has a judge that answers some questions of preference, or none.
func TestJudgeDown(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := &shop{one: priced{"wrong, and long enough to be cut", 100}, two: priced{"right, and long enough to be cut", 300}}
		w, c := s.open(t, db)
		w.Work()
		entry := c.Entry()
		compare := func(n int) api.Comparison {
			s.asked.Store(0)
			return await(c, start(c, object{"suite_id": asks(c, n), "trials": 1, "preference": true, "arms": []object{
				{"entry_id": entry, "version": "1.0.0"}, {"entry_id": entry},
			}}))
		}
		// One question without an answer leaves the others as they are.
		var once atomic.Bool
		s.prefer = func(a, b string) (r judgetest.Reply) {
			if a[0] != b[0] && once.CompareAndSwap(false, true) { // not a control
				r = judgetest.Reply{Status: http.StatusBadRequest, Message: "no"}
			}
			return r
		}
		got := compare(8)
		if p := got.Pairs[0].Preference; got.Status != "succeeded" || p.Pairs != 7 || p.Wins != 7 || !p.Reliable {
			t.Errorf("the comparison is %s with %+v, want 7 wins of 7 pairs", got.Status, p)
		}
		for name, status := range map[string]int{"down": http.StatusBadRequest, "without a key": http.StatusUnauthorized} {
			s.prefer = func(string, string) judgetest.Reply { return judgetest.Reply{Status: status, Message: "no"} }
			got = compare(20)
			if got.Status != "failed" || got.Error == nil || !strings.Contains(*got.Error, "judge could not compare") {
				t.Errorf("with a judge who is %s, the comparison is %s: %v", name, got.Status, got.Error)
			}
			// The arms were paid for, and what they showed stays.
			if len(got.Pairs) != 1 || got.Pairs[0].Verdict != "b_better" || got.Recommendation.Reason == "" || got.Pairs[0].Preference.Reliable {
				t.Errorf("with a judge who is %s, the pairs are %+v", name, got.Pairs)
			}
			if n := s.asked.Load(); n > 12 {
				t.Errorf("a judge who is %s was asked %d times, want at most three groups", name, n)
			}
		}
	})
}

// TestOneCase has a suite of one case, and arms that only end as errors.
func TestOneCase(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := &shop{one: priced{"wrong", 100}, two: priced{"right", 300}}
		w, c := s.open(t, db)
		w.Work()
		arms := []object{{"entry_id": c.Entry(), "version": "1.0.0"}, {"entry_id": c.Entry()}}
		got := await(c, start(c, object{"suite_id": asks(c, 1), "arms": arms}))
		if p := got.Pairs[0]; got.Status != "succeeded" || p.Cases != 1 || p.P != 1 || p.Verdict != "no_difference_shown" || p.Cost != nil {
			t.Errorf("one case: the comparison is %s with %+v", got.Status, p)
		}
		if r := got.Recommendation; r.Kind != "none" || r.CasesNeeded == nil || *r.CasesNeeded < 2 {
			t.Errorf("one case recommends %+v, want how many are needed", r)
		}
		errs := c.Create(runstest.Deterministic(object{"case_kind": "exact_match", "expected": "1", "command": []string{"/nowhere/program"}}))
		got = await(c, start(c, object{"suite_id": errs["id"], "arms": arms}))
		if p := got.Pairs[0]; got.Status != "succeeded" || p.Verdict != "inconclusive" || p.Reason == nil || got.Arms[0].Errors == 0 || got.Arms[0].Score != nil {
			t.Errorf("only errors: the comparison is %s with %+v and the arms %+v", got.Status, p, got.Arms)
		}
	})
}

// TestLargeComparison has the largest one: preferences among 8 arms on 500 cases. Reading the
// outputs takes two statements for 32 questions, by the primary key.
func TestLargeComparison(t *testing.T) {
	t.Parallel()
	cases := 500
	if testing.Short() {
		cases = 40
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := &shop{none: priced{"wrong, and long enough to be cut", 10}}
		w, c := s.open(t, db)
		w.Work()
		arms := []object{{"no_skill": true}}
		for i := range 7 {
			// All answer alike, which needs no judge, but for the controls.
			id := c.Publish(fmt.Sprintf("skill-%d", i), "---\nname: skill\ndescription: Reads files.\n---\nGo on.\n")
			arms = append(arms, object{"entry_id": id, "name": fmt.Sprintf("skill %d", i)})
		}
		got := await(c, start(c, object{"suite_id": asks(c, cases), "trials": 1, "preference": true, "arms": arms}))
		if got.Status != "succeeded" || len(got.Pairs) != 28 {
			t.Fatalf("the comparison is %s with %d pairs: %v", got.Status, len(got.Pairs), got.Error)
		}
		for _, p := range got.Pairs {
			if p.Preference.Pairs != cases || p.Preference.Ties != cases || !p.Preference.Reliable || p.Verdict != "no_difference_shown" {
				t.Errorf("%s and %s: %s, %+v", p.A, p.B, p.Verdict, *p.Preference)
			}
		}
		// 28 pairs with a control of each kind for ten cases, asked twice.
		if want := int64(28 * 2 * 2 * cases / 10); s.asked.Load() != want {
			t.Errorf("%d questions, want %d", s.asked.Load(), want)
		}
		q := storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`SCAN|Seq Scan`), Allow: regexp.MustCompile(`json_each|CONSTANT ROW`),
		}
		ids := []string{*got.Arms[0].RunID, *got.Arms[1].RunID}
		if all, err := runs.Outputs(t.Context(), q, c.Org.ID, ids, 3, 12); err != nil || len(all) != 20 {
			t.Errorf("%d outputs of ten cases of two runs, %v", len(all), err)
		}
		if all, err := runs.Outputs(t.Context(), db, w.Org("other").Org.ID, ids, 3, 12); err != nil || len(all) != 0 {
			t.Errorf("another organisation reads %d outputs, %v", len(all), err)
		}
		if _, err := recording.FindAll(t.Context(), q, c.Org.ID, ids); err != nil {
			t.Error(err)
		}
	})
}
