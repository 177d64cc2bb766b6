package gates_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// rerun gates the same version again, as a member would.
func (c *client) rerun(id any) object {
	c.T.Helper()
	return c.decided(c.Post("/api/v1/gates/"+id.(string)+"/rerun", nil).Want(http.StatusAccepted).Text("gate", "id"))
}

// pushSame pushes the files of another version.
func (c *client) pushSame(version, files string) apptest.Response {
	c.T.Helper()
	return c.Upload("/api/v1/registry/"+c.entry+"/versions",
		apptest.Part{Name: "metadata", Content: []byte(`{"version":"` + version + `"}`)},
		apptest.Part{Name: "archive", File: "skill.tar.gz", Content: archiveOf(files)})
}

func wantAttempt(t *testing.T, gate object, attempt int, previous ...any) {
	t.Helper()
	if gate["attempt"] != float64(attempt) || !slices.Equal(gate["previous"].([]any), previous) {
		t.Errorf("attempt %v after %v, want %d after %v", gate["attempt"], gate["previous"], attempt, previous)
	}
}

// few fails seven queries of a version.
func few(query string) bool {
	return slices.Contains([]string{"0", "1", "2", "3", "4", "5", "6"}, strings.TrimPrefix(query, "query "))
}

// TestRerunPools: whoever asks again does not roll the dice again, under whichever name the
// files are pushed.
func TestRerunPools(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.Work()
		w.model.decide(func(version, query string, _ int) bool { return version != "1.1.0" || !few(query) })
		first := w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		wantAttempt(t, first, 1)
		if first["verdict"] != "block" {
			t.Fatalf("the first gate says %v", first)
		}
		w.model.decide(nil) // a lucky day
		fresh := w.Post("/api/v1/gates/"+first["id"].(string)+"/rerun", nil).Want(http.StatusAccepted).Field("gate")
		wantAttempt(t, fresh, 2, first["id"])
		second := w.decided(fresh["id"].(string))
		if second["verdict"] != "block" {
			t.Errorf("the second gate says %v", second)
		}
		for _, c := range apptest.List(t, apptest.List(t, second, "suites")[0], "results") {
			if tried := c["new"].(object); tried["passed"] != 3.0 || tried["tried"] != 6.0 {
				t.Errorf("case %v has %v, want 3 of 6 trials", c["case"], tried)
			}
		}
		third := w.decided(w.pushSame("1.1.1", "1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		wantAttempt(t, third, 3, first["id"], second["id"])
		if third["verdict"] != "block" {
			t.Errorf("the same files as another version: %v", third)
		}
		// Other files have nothing to do with it, and neither has a suite that asks something else.
		wantAttempt(t, w.decided(w.push("1.2.0").Want(http.StatusAccepted).Text("gate", "id")), 1)
		if n := w.Count("audit_entries WHERE action = 'gates.gate.rerun' AND detail LIKE '%\"attempt\":2%'"); n != 1 {
			t.Errorf("%d entries of the audit log about attempt 2", n)
		}
	})
}

// TestRerunOfAnotherQuestion: a suite that changed asks something else.
func TestRerunOfAnotherQuestion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.Work()
		w.model.decide(func(version, query string, _ int) bool { return version != "1.1.0" || !few(query) })
		first := w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		path := runstest.SuitesPath + "/" + w.suite["id"].(string)
		all := w.Get(path).Want(http.StatusOK).Field("suite")["cases_json"].([]any)
		w.Do(http.MethodPatch, path, object{"cases_json": append(all, runstest.Trigger("query 20"))}).Want(http.StatusOK)
		w.model.decide(nil)
		gate := w.rerun(first["id"])
		wantAttempt(t, gate, 1)
		if gate["verdict"] != "pass" {
			t.Errorf("the gate says %v", gate)
		}
	})
}

// TestLiftedBlock: a false block ends once the pool no longer suggests harm.
func TestLiftedBlock(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.Work()
		w.model.decide(func(version, query string, _ int) bool { return version != "1.1.0" || !few(query) })
		first := w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		w.model.decide(func(version, query string, n int) bool { return version != "1.0.0" || !few(query) || n > 3 })
		gate := w.rerun(first["id"])
		if gate["verdict"] != "pass" {
			t.Errorf("the gate says %v: %v", gate["verdict"], gate["reason"])
		}
		w.want("1.1.0", "published", true)
	})
}

// TestReuse: trials of the current version serve for 24 hours, and a block that rests on
// those of an earlier gate is tried again on both.
func TestReuse(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.Work()
		w.model.decide(nil)
		w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		w.decided(w.push("1.2.0").Want(http.StatusAccepted).Text("gate", "id"))
		if n := w.model.total("1.1.0"); n != 60 {
			t.Errorf("1.1.0 was tried %d times, want the 60 of its own gate", n)
		}
		w.Exec("UPDATE eval_runs SET created_at = created_at - 86400000000")
		w.model.decide(nil)
		w.decided(w.push("1.3.0").Want(http.StatusAccepted).Text("gate", "id"))
		if n := w.model.total("1.2.0"); n != 60 {
			t.Errorf("1.2.0 was tried %d times more a day later, want 60", n)
		}
		// Since the trials of 1.3.0 the model has become worse at seven queries.
		w.model.decide(func(_, query string, _ int) bool { return !few(query) })
		gate := w.decided(w.push("1.4.0").Want(http.StatusAccepted).Text("gate", "id"))
		if gate["verdict"] != "pass" {
			t.Errorf("the gate takes the day for the version: %v, %v", gate["verdict"], gate["reason"])
		}
		if n, m := w.model.total("1.3.0"), w.model.total("1.4.0"); n != 120 || m != 120 {
			t.Errorf("tried %d and %d times, want 120 times each", n, m)
		}
		w.want("1.4.0", "published", true)
	})
}

// TestInterrupted: nobody passes a gate by stopping it, whatever the policy does with gates
// that cannot decide.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce(object{"on_inconclusive": "pass"})
		w.model.hang = make(chan struct{})
		defer close(w.model.hang)
		w.Work()
		gate := w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id")
		apptest.Eventually(t, "the gate to run", func() bool { return w.gate(gate)["status"] == "running" })
		member := w.Member(w.Caller.Org, access.Member)
		for _, run := range w.Get(runstest.SuitesPath + "/" + w.suite["id"].(string) + "/runs").Want(http.StatusOK).List("runs") {
			member.Post("/api/v1/eval-runs/"+run["id"].(string)+"/cancel", nil)
		}
		got := w.decided(gate)
		if got["verdict"] != "inconclusive" || got["reason"] != "a run was cancelled" {
			t.Errorf("the gate says %v", got)
		}
		w.want("1.1.0", "candidate", false)
		w.Settle()
		w.want("1.1.0", "candidate", false)
	})
}

// TestAgainstWithdrawn: the withdrawal of the current version lets no other one pass without
// proof: candidates are compared with what was current last.
func TestAgainstWithdrawn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.Work()
		w.model.decide(func(version, _ string, _ int) bool { return version != "1.1.0" && version != "1.2.0" })
		blocked := w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		w.Post("/api/v1/registry/"+w.entry+"/versions/1.0.0/withdraw", object{"reason": "leaks"}).Want(http.StatusOK)
		if gate := w.rerun(blocked["id"]); gate["verdict"] != "block" || gate["against"] != "1.0.0" {
			t.Errorf("the rerun says %v against %v: %v", gate["verdict"], gate["against"], gate["reason"])
		}
		if gate := w.decided(w.push("1.2.0").Want(http.StatusAccepted).Text("gate", "id")); gate["verdict"] != "block" || gate["against"] != "1.0.0" {
			t.Errorf("the next push: %v against %v: %v", gate["verdict"], gate["against"], gate["reason"])
		}
		w.want("1.1.0", "candidate", false)
		w.want("1.2.0", "candidate", false)
		if gate := w.decided(w.push("1.3.0").Want(http.StatusAccepted).Text("gate", "id")); gate["verdict"] != "pass" {
			t.Errorf("a good version: %v: %v", gate["verdict"], gate["reason"])
		}
		w.want("1.3.0", "published", true)
	})
}

// TestRerunLowered: a policy that was lowered does not touch what waits, by a rerun neither.
func TestRerunLowered(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		w.enforce(object{"floors": object{"skill_md_tokens": 5}})
		floor := w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		w.enforce() // without the floor
		if gate := w.rerun(floor["id"]); gate["verdict"] != "block" {
			t.Errorf("without the floor: %v, %v", gate["verdict"], gate["reason"])
		}
		w.want("1.1.0", "candidate", false)
		w.enforce(object{"min_cases": 21})
		unclear := w.decided(w.push("1.2.0").Want(http.StatusAccepted).Text("gate", "id"))
		w.enforce(object{"min_cases": 21, "on_inconclusive": "pass"})
		if gate := w.rerun(unclear["id"]); gate["verdict"] != "inconclusive" {
			t.Errorf("few cases: %v", gate)
		}
		w.want("1.2.0", "candidate", false)
	})
}

// TestOneArm: half a suite that only the current version decides is no pass.
func TestOneArm(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.model.reject(func(version, query string) bool { return version == "1.1.0" && few(query) })
		w.Work()
		gate := w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		if gate["verdict"] != "inconclusive" || !strings.Contains(gate["reason"].(string), "7 of 20 cases have no verdict of the new version") {
			t.Errorf("the gate says %v: %v", gate["verdict"], gate["reason"])
		}
		w.want("1.1.0", "candidate", false)
	})
}
