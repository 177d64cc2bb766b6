package comparisons_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/sandboxtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

type object = apptest.Object

const path = "/api/v1/comparisons"

// start starts a comparison.
func start(c *runstest.Client, body object) api.Comparison {
	c.T.Helper()
	return read(c, c.Post(path, body).Want(http.StatusAccepted))
}

func read(c *runstest.Client, r apptest.Response) api.Comparison {
	c.T.Helper()
	raw, err := json.Marshal(r.Field("comparison"))
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	var got api.Comparison
	if err := json.Unmarshal(raw, &got); err != nil {
		c.T.Fatalf("%v", err)
	}
	return got
}

// await waits for the end of a comparison.
func await(c *runstest.Client, started api.Comparison) api.Comparison {
	c.T.Helper()
	apptest.Eventually(c.T, "the end of the comparison", func() bool {
		return c.World.Count("comparisons WHERE id = $1 AND ended_at IS NOT NULL", started.ID) == 1
	})
	return read(c, c.Get(path+"/"+started.ID).Want(http.StatusOK))
}

// commands is a suite of programs that pass with the version two only.
func commands(c *runstest.Client, n int) object {
	c.T.Helper()
	var cases []object
	for range n {
		cases = append(cases, object{
			"case_kind": "exact_match", "expected": "1", "normalize": []string{"trim"},
			"command": []string{"sh", "-c", `grep -c "version two" "$SKILL_DIR/SKILL.md" || true`},
		})
	}
	return c.Create(apptest.With(runstest.Deterministic(cases...), object{"supports_no_skill": true}))
}

func TestCompare(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		sandboxtest.Bubblewrap(t)
		w.Work()
		c := w.Org("acme")
		suite, entry := commands(c, 12), c.Entry()
		body := object{"suite_id": suite["id"], "trials": 2, "arms": []object{
			{"entry_id": entry, "version": "1.0.0"},
			{"entry_id": entry},
			{"no_skill": true},
		}}
		estimate := c.Post(path, apptest.With(body, object{"estimate": true})).Want(http.StatusOK).Field("estimate")
		if estimate["trials"] != 72.0 || estimate["calls"] != 0.0 {
			t.Errorf("the estimate is %v, want 72 trials and no call of a model", estimate)
		}
		if n := w.Count("comparisons"); n != 0 {
			t.Errorf("an estimate stored %d comparisons", n)
		}
		got := await(c, start(c, body))
		var names []string
		for _, a := range got.Arms {
			names = append(names, a.Name)
		}
		if want := []string{"pdf 1.0.0", "pdf 2.0.0", "no skill"}; got.Status != "succeeded" || !slices.Equal(names, want) {
			t.Fatalf("the comparison %s with the arms %q, want %q. Error: %v", got.Status, names, want, got.Error)
		}
		for i, want := range []float64{0, 1, 0} {
			a := got.Arms[i]
			if a.Cases != 12 || a.Score == nil || *a.Score != want || a.CostUSD != nil || a.Turns != nil || a.Errors != 0 || a.Duration == nil {
				t.Errorf("arm %s has %d cases and the score %v, want 12 and %v: %+v", a.Name, a.Cases, a.Score, want, a)
			}
		}
		if p := got.Pairs[0]; p.A != "pdf 1.0.0" || p.B != "pdf 2.0.0" || p.Verdict != "b_better" || p.Difference != 1 || len(p.Better) != 12 {
			t.Errorf("the first pair is %+v, want version 2.0.0 better on 12 cases", p)
		}
		if p := got.Pairs[1]; p.Verdict != "no_difference_shown" || p.Difference != 0 || p.P != 1 {
			t.Errorf("version 1.0.0 and no skill: %+v, want no difference", p)
		}
		if r := got.Recommendation; r.Kind != "keep" || r.Arm == nil || *r.Arm != "pdf 2.0.0" || r.CasesNeeded != nil {
			t.Errorf("the recommendation is %+v, want to keep version 2.0.0", r)
		}
		// The runs of arms are runs as others, but for the one without a skill, which is in no list.
		if listed := c.Get(runstest.SuitesPath + "/" + suite["id"].(string) + "/runs").List("runs"); len(listed) != 2 {
			t.Errorf("the suite lists %d runs, want 2", len(listed))
		}
		again := await(c, start(c, body))
		for i, a := range again.Arms {
			if !a.Reused || *a.RunID != *got.Arms[i].RunID || *a.Score != *got.Arms[i].Score {
				t.Errorf("the second time, arm %s has the run %s (reused: %v), want the first one's", a.Name, *a.RunID, a.Reused)
			}
		}
		csv := c.Get(path + "/" + got.ID + ".csv").Want(http.StatusOK).Body
		if lines := strings.Count(string(csv), "\r\n"); lines != 1+3*12 {
			t.Errorf("the file has %d lines, want a head and 36:\n%s", lines, csv)
		}
		if listed := c.Get(path + "?entry_id=" + entry + "&limit=1"); len(listed.List("comparisons")) != 1 {
			t.Errorf("the list is %s", listed.Body)
		}
		c.Post(path+"/"+got.ID+"/cancel", nil).Want(http.StatusConflict)
		other := w.Org("other")
		other.Get(path + "/" + got.ID).Want(http.StatusNotFound)
		other.Post(path+"/"+got.ID+"/cancel", nil).Want(http.StatusNotFound)
		other.Post(path, body).Want(http.StatusNotFound)
	})
}

// TestCompareRefuses has what can't run: the answer names the arm, and nothing is stored.
func TestCompareRefuses(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		suite, entry := commands(c, 1)["id"], c.Entry()
		arms := func(all ...object) object { return object{"suite_id": suite, "arms": all} }
		one := object{"entry_id": entry}
		for name, r := range map[string]struct {
			body object
			want string
		}{
			"one arm":            {arms(one), "arms"},
			"equal arms":         {arms(one, one), "arms.1"},
			"equal by version":   {arms(one, object{"entry_id": entry, "version": "2.0.0"}), "arms.1"},
			"nothing to try":     {arms(one, object{}), "arms.1"},
			"two things to try":  {arms(one, object{"entry_id": entry, "no_skill": true}), "arms.1"},
			"an unknown version": {arms(one, object{"entry_id": entry, "version": "9.0.0"}), "arms.1"},
			"an unknown entry":   {arms(one, object{"entry_id": "01a1ef67-48b6-7314-9c1e-000000000000"}), "arms.1"},
			"an unknown agent":   {arms(one, object{"entry_id": entry, "agent": object{"name": "nobody"}}), "arms.1"},
			"equal names":        {arms(object{"entry_id": entry, "name": "x"}, object{"no_skill": true, "name": "x"}), "arms.1.name"},
			"a margin over half": {apptest.With(arms(one, object{"no_skill": true}), object{"margin": 0.6}), "margin"},
			"no judge to prefer": {apptest.With(arms(one, object{"no_skill": true}), object{"preference": true}), "preference"},
			"too many trials":    {apptest.With(arms(one, object{"no_skill": true}), object{"trials": 31}), "trials"},
		} {
			got := c.Post(path, r.body).Want(http.StatusBadRequest)
			if !strings.Contains(string(got.Body), strings.ReplaceAll(r.want, ".", `","`)) && !strings.Contains(string(got.Body), r.want) {
				t.Errorf("%s: the answer doesn't name %s: %s", name, r.want, got.Body)
			}
		}
		missing := apptest.With(arms(one, object{"no_skill": true}), object{"suite_id": "01a1ef67-48b6-7314-9c1e-000000000000"})
		c.Post(path, missing).Want(http.StatusNotFound)
		if n := w.Count("comparisons") + w.Count("eval_runs"); n != 0 {
			t.Errorf("%d rows were stored", n)
		}
	})
}

// TestCompareEnds has comparisons that do not come to their end.
func TestCompareEnds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		entry := c.Entry()
		body := func(suite object) object {
			return object{"suite_id": suite["id"], "arms": []object{{"entry_id": entry}, {"no_skill": true}}}
		}
		cancelled := start(c, body(commands(c, 3)))
		if got := read(c, c.Post(path+"/"+cancelled.ID+"/cancel", nil).Want(http.StatusOK)); got.Status != "cancelled" || got.EndedAt == nil {
			t.Errorf("the comparison is %s, want cancelled", got.Status)
		}
		c.Post(path+"/"+cancelled.ID+"/cancel", nil).Want(http.StatusOK)
		gone := commands(c, 3)
		deleted := start(c, body(gone))
		c.Do(http.MethodDelete, runstest.SuitesPath+"/"+gone["id"].(string), nil).Want(http.StatusNoContent)
		w.Work()
		if got := await(c, deleted); got.Status != "failed" || got.Error == nil || !strings.Contains(*got.Error, "suite was deleted") {
			t.Errorf("with a deleted suite the comparison is %s: %v", got.Status, got.Error)
		}
		apptest.Eventually(t, "the end of the cancelled runs", func() bool {
			return w.Count("eval_runs WHERE finished_at IS NULL") == 0
		})
	})
}

// TestPreference lets a scripted model prefer the output that says so, whatever its position.
func TestPreference(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		server := judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
			if !strings.Contains(r.System, "You compare two results") {
				text := "The report lacks its totals, and nobody knows why that is so."
				if strings.Contains(r.System, "version two") {
					text = "The report has all of its totals, by month and by region."
				}
				return judgetest.Reply{Text: text, Input: 10, Output: 10}
			}
			a, b := between(r.User, "A"), between(r.User, "B")
			better := "tie"
			switch {
			case strings.Contains(a, "all of its totals, by month") && !strings.Contains(b, "all of its totals, by month"):
				better = "A"
			case strings.Contains(b, "all of its totals, by month") && !strings.Contains(a, "all of its totals, by month"):
				better = "B"
			}
			answer, err := json.Marshal(object{"reason": "It has the totals.", "quote_a": a, "quote_b": b, "better": better})
			if err != nil {
				t.Error(err)
			}
			return judgetest.Reply{Text: string(answer), Input: 100, Output: 20}
		})
		w := runstest.New(t, db, runstest.Scripted(server))
		w.Work()
		c := w.Org("acme")
		var cases []object
		for range 8 {
			cases = append(cases, object{"case_kind": "exact_match", "prompt": "Write the report.", "expected": "x"})
		}
		suite := c.Create(runstest.Deterministic(cases...))
		entry := c.Entry()
		got := await(c, start(c, object{"suite_id": suite["id"], "trials": 2, "preference": true, "arms": []object{
			{"entry_id": entry, "version": "1.0.0"}, {"entry_id": entry, "version": "2.0.0"},
		}}))
		if got.Status != "succeeded" || got.Pairs[0].Preference == nil {
			t.Fatalf("the comparison is %s: %v", got.Status, got.Error)
		}
		p := got.Pairs[0].Preference
		if p.Wins != 8 || p.Losses != 0 || p.Pairs != 16 || p.Inconsistent != 0 || *p.WinShare != 1 || *p.P > 0.01 {
			t.Errorf("the preference is %+v, want 8 wins of 16 pairs", *p)
		}
		if got.Pairs[0].Verdict != "no_difference_shown" {
			t.Errorf("the verdict of the cases is %s: the preference must not count in it", got.Pairs[0].Verdict)
		}
		// 16 pairs and two controls of each kind, each asked twice; identical outputs need no question
		// but as controls.
		asked := 0
		for _, r := range server.Requests() {
			if strings.Contains(r.System, "You compare two results") {
				asked++
			}
		}
		if asked != 2*(16+2*2) {
			t.Errorf("the judge was asked %d times, want 40", asked)
		}
	})
}

// between returns a result of a question of preference.
func between(user, of string) string {
	_, rest, _ := strings.Cut(user, "\nBEGIN "+of+" ")
	_, rest, _ = strings.Cut(rest, "\n")
	text, _, _ := strings.Cut(rest, "\nEND "+of+" ")
	return text
}
