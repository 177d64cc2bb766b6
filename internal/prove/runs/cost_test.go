package runs_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// prices are the same for every organisation.
type prices []pricing.Model

func (p prices) Table(context.Context, string) (pricing.Table, error) {
	return pricing.Table{}.Before(p), nil
}

// metered is a scripted model whose every answer has 1000 tokens in and 100 out.
func metered(m judgetest.Model) judgetest.Responder {
	return func(r judgetest.Request) judgetest.Reply {
		a := m.Respond(r)
		if a.Status == 0 {
			a.Input, a.Output = 1000, 100
		}
		return a
	}
}

// wantCost compares the cost of a run.
func wantCost(t *testing.T, run object, usd any, requests int) {
	t.Helper()
	want := apptest.Plain(t, object{"usd": usd, "requests": requests, "tokens": object{
		"input": 1000 * requests, "output": 100 * requests, "cache_read": 0, "cache_write": 0,
	}})
	if diff := cmp.Diff(want, run["cost"]); diff != "" {
		t.Errorf("cost (-want +got):\n%s", diff)
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, metered(judgetest.Model{
			Route:  router,
			Answer: func(prompt, _ string) string { return prompt },
			Grade:  func(criterion, _ string) (string, bool) { return criterion, true },
			// The rubric's two calls follow the one for the output.
			Criteria: []string{"hello"},
		}))
		w := runstest.New(t, db, runstest.Scripted(server), func(w *runstest.World) {
			w.Runs.Prices = prices{{Match: "scripted", Input: 3, Output: 15}}
		})
		w.Work()
		c := w.Org("acme")
		// A request costs 1000 * 3 + 100 * 15 millionths of a dollar.
		suite := c.Create(with(judged(
			trigger("read the pdf"), object{"case_kind": "llm_rubric", "prompt": "hello", "expectations": []string{"hello"}},
		), object{"supports_no_skill": true}))
		run := c.Finish(suite, object{"baseline": "no_skill", "trials": 2})
		wantCost(t, run, 0.0045*16, 16)
		if n := len(server.Requests()); n != 16 {
			t.Errorf("the server got %d requests", n)
		}
		for i, want := range []float64{0.0045, 0.0135} {
			for _, trial := range apptest.List(t, apptest.List(t, run, "cases")[i], "trials") {
				if got := trial["cost_usd"]; got != want {
					t.Errorf("a trial of case %d cost %v, want %v", i, got, want)
				}
			}
		}
		// Without a model there is nothing to pay, which is known.
		run = c.Finish(c.Create(deterministic(exact("a", "a"))))
		wantCost(t, run, 0, 0)
		if got := apptest.List(t, apptest.List(t, run, "cases")[0], "trials")[0]["cost_usd"]; got != nil {
			t.Errorf("a trial without a model cost %v", got)
		}
		// An answer that is of no use was paid for, too.
		server.Then(judgetest.Reply{Text: "no", Input: 1000, Output: 100}, judgetest.Reply{Text: "no", Input: 1000, Output: 100})
		run = c.Finish(c.Create(judged(trigger("read the pdf"))))
		wantErrors(t, run, "judge_unusable")
		wantCost(t, run, 0.009, 2)
		// A server that counts no tokens, and a model without a price.
		server.Then(judgetest.Reply{Text: `{"reason":"r","skill":null,"confidence":1}`})
		run = c.Finish(c.Create(judged(trigger("read the pdf"))))
		if cost := run["cost"].(object); cost["usd"] != nil || cost["requests"] != 1.0 {
			t.Errorf("cost is %v", cost)
		}
		w.Runs.Prices = prices{{Match: "other", Input: 3, Output: 15}}
		wantCost(t, c.Finish(c.Create(judged(trigger("read the pdf")))), nil, 1)
	})
}

// TestCostOnce: trials that two workers make are paid twice and counted once, as
// everything about them.
func TestCostOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, metered(judgetest.Model{Route: router}))
		set := func(w *runstest.World) { w.Runs.Prices = prices{{Match: "*", Input: 3, Output: 15}} }
		w := runstest.New(t, db, runstest.Scripted(server), set)
		c := w.Org("acme")
		run := c.Start(c.Create(judged(trigger("read the pdf"), avoid("will it rain"), trigger(strings.Repeat("x", 9)))), object{"trials": 3})
		other := w.Another(jobs.Options{}, runstest.Scripted(server), set)
		done := make(chan error, 2)
		for _, w := range []*runstest.World{w, other} {
			go func() { done <- w.Runs.Execute(t.Context(), c.Org.ID, run["id"].(string)) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Log(err) // one of them may find the run over
			}
		}
		wantCost(t, c.Run(run["id"]), 0.0045*9, 9)
	})
}
