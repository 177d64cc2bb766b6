package grades_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// labelling makes labels of the first words of reasons. All else it leaves to the
// honest model.
func labelling(r judgetest.Request) judgetest.Reply {
	if !strings.Contains(r.System, "You name problems.") {
		return honest(r)
	}
	return judgetest.Model{Label: func(reason string) string {
		words := strings.Fields(strings.Trim(reason, "."))
		return "Wrong: " + strings.Join(words[:min(len(words), 4)], " ")
	}}.Respond(r)
}

// prompts returns the prompts for labels that the model got.
func (w *world) prompts() (all []judgetest.Request) {
	for _, r := range w.model.Requests() {
		if strings.Contains(r.System, "You name problems.") {
			all = append(all, r)
		}
	}
	return all
}

// label does what the job does for the skill pdf.
func (w *world) label(c *apptest.Caller) error {
	w.T.Helper()
	return w.s.LabelFailures(w.T.Context(), c.Org.ID, w.skill(c)["skill_id"].(string))
}

func (w *world) fail(c *apptest.Caller, session, reason string) {
	w.T.Helper()
	c.Post("/v1/sessions/"+session+"/grades", object{"skill": "pdf", "verdict": "fail", "reason": reason}).Want(http.StatusCreated)
}

func (w *world) groups(c *apptest.Caller) map[string]object {
	w.T.Helper()
	byReason := map[string]object{}
	for _, g := range c.Get("/v1/skills/pdf/failures").Want(http.StatusOK).List("groups") {
		byReason[g["reason"].(string)] = g
	}
	return byReason
}

// TestLabels: the judge labels the reasons that somebody wrote, all with one prompt
// and each once; a label goes with the reason that it was made of.
func TestLabels(t *testing.T) {
	const lost, empty = "Lost 2 columns of the table", "The answer was empty"
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, labelling)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		w.use(ada, "s1", 2, 0)
		w.use(ada, "s2", 2, 2)
		w.keep(ada, transcript, "s1")
		w.enable(ada, object{"expectations": expected})
		for _, s := range []string{"s1", "s2", "s3", "s4"} {
			w.use(ada, s, 2, 2)
		}
		w.run(ada)
		w.fail(bob, "s3", lost)
		w.fail(ada, "s4", empty)
		want(t, w.groups(ada)[lost], object{"label": lost, "labelled_by": nil, "count": 1.0})
		for range 2 {
			if err := w.label(ada); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(w.prompts()); n != 1 {
			t.Errorf("%d prompts, want 1", n)
		}
		for _, c := range []*apptest.Caller{ada, bob} {
			all := w.groups(c)
			want(t, all[expected[1]], object{"label": "Wrong: It keeps the order", "labelled_by": "judge", "sessions": []any{"s1"}})
			want(t, all[lost], object{"label": "Wrong: Lost 2 columns of", "labelled_by": "judge", "count": 1.0})
			want(t, all[empty], object{"label": "Wrong: The answer was empty", "labelled_by": "judge"})
			want(t, all["Calls of Bash failed"], object{"label": "Calls of Bash failed", "labelled_by": nil})
		}
		// One more of the same needs no prompt; a new reason does, alone.
		w.use(ada, "s5", 2, 0)
		w.use(ada, "s6", 2, 0)
		w.fail(ada, "s5", "lost 3 columns of the table!")
		w.fail(ada, "s6", "Wrong language")
		if err := w.label(ada); err != nil {
			t.Fatal(err)
		}
		asked := w.prompts()
		if len(asked) != 2 || strings.Contains(asked[1].User, "columns") || !strings.Contains(asked[1].User, "Wrong language") {
			t.Errorf("%d prompts, the last: %v", len(asked), asked[len(asked)-1].User)
		}
		if g := w.groups(ada); len(g) != 5 {
			t.Errorf("groups: %v", g)
		}
		w.wantSound()

		// A reason that is replaced, withdrawn or erased takes its label along.
		w.fail(ada, "s6", "Another reason")
		if n := w.Count("grade_failure_labels WHERE label LIKE '%language%'"); n != 0 {
			t.Error("the label of a replaced reason is left")
		}
		bob.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		if n := w.Count("grade_failure_labels WHERE label LIKE '%columns of%'"); n != 0 {
			t.Error("the label of an erased reason is left")
		}
		if err := w.label(ada); err != nil {
			t.Fatal(err)
		}
		want(t, w.groups(ada)["lost 3 columns of the table!"], object{"label": "Wrong: lost 3 columns of", "labelled_by": "judge"})
		w.wantSound()
		ada.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		if n := w.Count("grade_failure_labels"); n != 0 {
			t.Errorf("%d labels are left", n)
		}
		w.wantSound()
	})
}

// TestErasedWhileLabelled: a reason that is erased while the judge reads it leaves no
// label.
func TestErasedWhileLabelled(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var ada *apptest.Caller
		w := newWorld(t, db, func(r judgetest.Request) judgetest.Reply {
			ada.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
			return labelling(r)
		})
		ada = w.Org("acme")
		w.use(ada, "s1", 2, 0)
		w.enable(ada, nil)
		w.fail(ada, "s1", "Lost all columns")
		if err := w.label(ada); err != nil {
			t.Fatal(err)
		}
		if n := w.Count("grade_failure_labels"); n != 0 || len(w.prompts()) != 1 {
			t.Errorf("%d labels after %d prompts", n, len(w.prompts()))
		}
	})
}

// TestNoLabel: without a grader, after an outage, nonsense and the end of the budget,
// groups keep their reasons.
func TestNoLabel(t *testing.T) {
	nonsense := func(judgetest.Request) judgetest.Reply { return judgetest.Text("columns") }
	down := func(judgetest.Request) judgetest.Reply { return judgetest.Fail(http.StatusUnauthorized, "no") }
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		var respond judgetest.Responder
		w := newWorld(t, db, func(r judgetest.Request) judgetest.Reply { return respond(r) })
		for name, test := range map[string]struct {
			respond judgetest.Responder
			grader  object
			prompts int  // in two runs
			later   bool // it is tried again
		}{
			"no grader": {labelling, object{"enabled": false}, 0, false},
			"no sample": {labelling, object{"sample_per_day": 0}, 0, false},
			"no money":  {labelling, object{"max_cost_usd_per_day": 0}, 0, true},
			"nonsense":  {nonsense, object{}, 2, false}, // one, and its repair
			"outage":    {down, object{}, 2, true},
		} {
			respond = test.respond
			ada, before := w.Org(name), len(w.prompts())
			w.Exec(`INSERT INTO cost_prices (org_id, models, table_hash) VALUES ($1, '[{"match":"gpt-5","input":1.25,"output":0}]', '')`, ada.Org.ID)
			w.use(ada, "s1", 2, 0)
			w.enable(ada, test.grader)
			w.fail(ada, "s1", "Lost columns")
			for range 2 {
				err := w.label(ada)
				if snoozed := err != nil && strings.Contains(err.Error(), "snoozed"); snoozed != test.later {
					t.Errorf("%s: %v", name, err)
				}
			}
			want(t, w.groups(ada)["Lost columns"], object{"label": "Lost columns", "labelled_by": nil})
			if n := len(w.prompts()) - before; n != test.prompts {
				t.Errorf("%s: %d prompts, want %d", name, n, test.prompts)
			}
		}
		w.wantSound()
	})
}

// TestLabelBudget: what labels cost is in the grader's budget, and there are only so
// many prompts in a day.
func TestLabelBudget(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, func(r judgetest.Request) judgetest.Reply {
			reply := labelling(r)
			reply.Input, reply.Output = 2000, 0
			return reply
		})
		for _, test := range []struct {
			org     string
			grader  object
			prompts int
		}{
			{"money", object{"max_cost_usd_per_day": 0.0103}, 4}, // 0.0025 dollars each
			{"sample", object{"sample_per_day": 3}, 3},
			{"all", object{"sample_per_day": nil, "max_cost_usd_per_day": nil}, 10},
		} {
			ada := w.Org(test.org)
			before := len(w.prompts())
			w.Exec(`INSERT INTO cost_prices (org_id, models, table_hash) VALUES ($1, '[{"match":"gpt-5","input":1.25,"output":0}]', '')`, ada.Org.ID)
			w.use(ada, "s1", 2, 0)
			w.enable(ada, test.grader)
			var last error
			for i := range 12 {
				w.fail(ada, "s1", fmt.Sprint("Lost the ", strings.Repeat("very ", i), "last column"))
				last = w.label(ada)
			}
			if n := len(w.prompts()) - before; n != test.prompts || last == nil || !strings.Contains(last.Error(), "snoozed") {
				t.Errorf("%s: %d prompts, want %d; %v", test.org, n, test.prompts, last)
			}
			if n := w.Count("grader_days WHERE org_id = $1 AND labels = $2 AND calls = $2 AND micros = 2500 * $2", ada.Org.ID, test.prompts); n != 1 {
				t.Errorf("%s: the budget does not have %d prompts", test.org, test.prompts)
			}
		}
	})
}

// TestManyReasons: one prompt has no more reasons than a model reads well, and the
// next one has the rest.
func TestManyReasons(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, labelling)
		ada := w.Org("acme")
		w.use(ada, "s0", 2, 0)
		w.enable(ada, nil)
		for i := range 25 {
			session := fmt.Sprint("t", i)
			w.use(ada, session, 2, 0)
			w.fail(ada, session, strings.Repeat("lost ", i+1)+"columns")
		}
		if err := w.label(ada); err != nil {
			t.Fatal(err)
		}
		if n := len(w.prompts()); n != 2 || w.Count("grade_failure_labels") != 25 {
			t.Errorf("%d prompts, %d labels", n, w.Count("grade_failure_labels"))
		}
	})
}
