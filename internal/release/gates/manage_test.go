package gates_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestOverride: a person with the right decides, and the log says why.
func TestOverride(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce(object{"floors": object{"skill_md_tokens": 5}})
		w.Work()
		id := w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id")
		w.decided(id)
		path := "/api/v1/gates/" + id
		member := w.Member(w.Caller.Org, access.Member)
		member.Post(path+"/override", object{"reason": "please"}).Want(http.StatusForbidden)
		w.OrgWithPlan("other", access.Team).Post(path+"/override", object{"reason": "mine"}).Want(http.StatusNotFound)
		w.Post(path+"/override", object{"reason": " "}).WantIssueWith("reason", "required")
		w.Post(path+"/override", object{"reason": strings.Repeat("a", 1001)}).WantIssueWith("reason", "at most 1000")
		w.want("1.1.0", "candidate", false)
		gate := w.Post(path+"/override", object{"reason": "we need it"}).Want(http.StatusOK).Field("gate")
		override := gate["override"].(object)
		if gate["verdict"] != "block" || override["reason"] != "we need it" || override["by"] != w.User.ID {
			t.Errorf("the gate says %v", gate)
		}
		w.want("1.1.0", "published", true)
		w.Post(path+"/override", object{"reason": "again"}).WantErrorWith(http.StatusConflict, "nothing to override")
		w.Post(path+"/rerun", nil).WantErrorWith(http.StatusConflict, "nothing to decide")
		if n := w.Count("audit_entries WHERE action = 'gates.gate.override' AND detail LIKE '%we need it%'"); n != 1 {
			t.Errorf("%d entries of the audit log", n)
		}
	})
}

// TestPromote: a candidate is promoted, withdrawn and restored by people.
func TestPromote(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce(object{"floors": object{"skill_md_tokens": 5}})
		w.push("1.1.0").Want(http.StatusAccepted)
		of := func(version string) string { return "/api/v1/registry/" + w.entry + "/versions/" + version }
		w.Post(of("1.1.0")+"/promote", object{}).Want(http.StatusBadRequest)
		w.Member(w.Caller.Org, access.Member).Post(of("1.1.0")+"/promote", object{"reason": "x"}).Want(http.StatusForbidden)
		w.OrgWithPlan("other", access.Team).Post(of("1.1.0")+"/promote", object{"reason": "x"}).Want(http.StatusNotFound)
		w.Post("/api/v1/registry/"+w.entry+"/rollback", object{"target_version": "1.1.0"}).Want(http.StatusConflict)

		w.Post(of("1.1.0")+"/withdraw", object{"reason": "leaks"}).Want(http.StatusOK)
		w.want("1.1.0", "withdrawn", false)
		w.Post(of("1.1.0")+"/promote", object{"reason": "x"}).WantErrorWith(http.StatusConflict, "withdrawn")
		w.Post(of("1.1.0")+"/restore", object{}).Want(http.StatusOK)
		w.want("1.1.0", "candidate", false)

		answer := w.Post(of("1.1.0")+"/promote", object{"reason": "it is good"}).Want(http.StatusOK).Object()
		apptest.WantKeys(t, answer, "entry", "version")
		w.want("1.1.0", "published", true)
		w.Post(of("1.1.0")+"/promote", object{"reason": "twice"}).WantErrorWith(http.StatusConflict, "not a candidate")
		w.Post(of("9.9.9")+"/promote", object{"reason": "x"}).Want(http.StatusNotFound)

		// Withdrawing the current version rolls back.
		w.Post(of("1.1.0")+"/withdraw", object{"reason": "it was not"}).Want(http.StatusOK)
		w.want("1.1.0", "withdrawn", false)
		w.want("1.0.0", "published", true)
		w.Post(of("1.1.0")+"/withdraw", object{"reason": "twice"}).Want(http.StatusConflict)
		w.Post("/api/v1/registry/"+w.entry+"/rollback", object{"target_version": "1.1.0"}).Want(http.StatusConflict)
		w.Post(of("1.1.0")+"/restore", object{"reason": "mended"}).Want(http.StatusOK)
		w.want("1.1.0", "published", false)
		w.Post(of("1.1.0")+"/restore", object{}).Want(http.StatusConflict)
		// The gate of 1.1.0 finds that people have decided.
		w.Work()
		gates := w.Get("/api/v1/gates?entry_id=" + w.entry).List("gates")
		if gate := w.decided(gates[0]["id"].(string)); gate["status"] != "cancelled" || gate["verdict"] != nil {
			t.Errorf("the gate is %v", gate)
		}
	})
}

// TestSuperseded: of two pushes while a gate runs, the newer one is gated.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.model.hang = make(chan struct{})
		w.Work()
		first := w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id")
		apptest.Eventually(t, "the first gate to run", func() bool { return w.gate(first)["status"] == "running" })
		second := w.push("1.2.0").Want(http.StatusAccepted).Text("gate", "id")
		close(w.model.hang)
		if gate := w.decided(second); gate["verdict"] != "pass" {
			t.Errorf("the second gate says %v", gate)
		}
		gate := w.gate(first)
		if gate["status"] != "superseded" || gate["verdict"] != nil || !strings.Contains(gate["reason"].(string), "1.2.0") {
			t.Errorf("the first gate says %v", gate)
		}
		w.want("1.1.0", "candidate", false)
		w.want("1.2.0", "published", true)
		apptest.Eventually(t, "the runs of the first gate to be cancelled", func() bool {
			return w.Count("eval_runs WHERE status IN ('queued', 'running')") == 0
		})
		w.Post("/api/v1/gates/"+first+"/rerun", nil).Want(http.StatusAccepted)
	})
}

// TestCurrentChanges: a candidate is compared with what is current when it is
// decided.
func TestCurrentChanges(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.push("1.1.0").Want(http.StatusCreated)
		w.enforce()
		w.model.hang = make(chan struct{})
		w.Work()
		first := w.push("1.2.0").Want(http.StatusAccepted).Text("gate", "id")
		apptest.Eventually(t, "the gate to run", func() bool { return w.gate(first)["status"] == "running" })
		w.Post("/api/v1/registry/"+w.entry+"/rollback", object{"target_version": "1.0.0"}).Want(http.StatusOK)
		close(w.model.hang)
		if gate := w.decided(first); gate["status"] != "superseded" {
			t.Errorf("the gate against the version that was rolled back says %v", gate)
		}
		second := w.version("1.2.0")["gate_id"].(string)
		if gate := w.decided(second); gate["against"] != "1.0.0" || gate["verdict"] != "pass" {
			t.Errorf("the second gate says %v", gate)
		}
		w.want("1.2.0", "published", true)
	})
}

// TestLimits: a gate that costs or takes too long is inconclusive, and stops.
func TestLimits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce(object{"max_minutes": 1})
		w.model.hang = make(chan struct{})
		defer close(w.model.hang)
		w.Work()
		id := w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id")
		apptest.Eventually(t, "the gate to run", func() bool { return w.gate(id)["status"] == "running" })
		apptest.Eventually(t, "a trial to begin", func() bool { return w.Count("eval_runs WHERE started_at IS NOT NULL") > 0 })
		w.Exec("UPDATE eval_runs SET started_at = started_at - 61000000")
		if gate := w.decided(id); gate["verdict"] != "inconclusive" || !strings.Contains(gate["reason"].(string), "1 minutes") {
			t.Errorf("the gate says %v", gate)
		}
		w.want("1.1.0", "candidate", false)
		apptest.Eventually(t, "the runs to be cancelled", func() bool {
			return w.Count("eval_runs WHERE status IN ('queued', 'running')") == 0
		})
	})
}

// TestDeletedMeanwhile: a suite or an entry that goes while a gate runs.
func TestDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.Work()
		w.Do(http.MethodDelete, runstest.SuitesPath+"/"+w.suite["id"].(string), nil).Want(http.StatusNoContent)
		gate := w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		if gate["verdict"] != "inconclusive" || !strings.Contains(gate["reason"].(string), "suite") {
			t.Errorf("the gate without its suite says %v", gate)
		}
		w.push("1.2.0").Want(http.StatusAccepted)
		w.Do(http.MethodDelete, "/api/v1/registry/"+w.entry, nil).Want(http.StatusNoContent)
		w.Get("/api/v1/gates/" + gate["id"].(string)).Want(http.StatusNotFound)
		w.Settle()
		if n := w.Count("gates") + w.Count("gate_runs") + w.Count("gate_policies"); n != 0 {
			t.Errorf("%d rows are left of the entry", n)
		}
	})
}

// TestPolicy: what a policy may say, and who may say it.
func TestPolicy(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		path := "/api/v1/registry/" + w.entry + "/gate-policy"
		want := object{
			"mode": "off", "suites": []any{}, "agent": nil, "trials": 3.0, "min_cases": 8.0, "on_inconclusive": "hold",
			"max_cost_usd": nil, "max_minutes": 30.0, "approvals": 0.0, "self_approval": false, "host_reviews": false, "floors": object{},
		}
		w.Get(path).WantBody(object{"policy": want, "inherited": true})
		w.Get("/api/v1/settings/gate-policy").WantBody(object{"policy": want, "inherited": false})
		w.Do(http.MethodPut, "/api/v1/settings/gate-policy", object{"policy": object{"mode": "report", "trials": 5}}).Want(http.StatusOK)
		shared := apptest.With(want, object{"mode": "report", "trials": 5.0})
		w.Get(path).WantBody(object{"policy": shared, "inherited": true})
		own := apptest.With(want, object{
			"mode": "enforce", "suites": []any{w.suite["id"]}, "agent": object{"name": "claude"}, "max_cost_usd": 2.5,
			"floors": object{"validation": "warn", "pass_rate": 0.5, "trigger_recall": 0.9, "skill_md_tokens": 5000.0},
		})
		w.Do(http.MethodPut, path, object{"policy": own}).Want(http.StatusOK).WantBody(object{"policy": own, "inherited": false})
		w.Get(path).WantBody(object{"policy": own, "inherited": false})
		w.Do(http.MethodPut, path, w.Get(path).Object()["policy"]).Want(http.StatusOK)

		w.Member(w.Caller.Org, access.Member).Do(http.MethodPut, path, object{"policy": own}).Want(http.StatusForbidden)
		w.Member(w.Caller.Org, access.Viewer).Get(path).Want(http.StatusOK)
		other := w.OrgWithPlan("other", access.Team)
		other.Get(path).Want(http.StatusNotFound)
		other.Do(http.MethodPut, path, object{"policy": object{"mode": "off"}}).Want(http.StatusNotFound)
		w.Get("/api/v1/registry/" + uuid.NewString() + "/gate-policy").Want(http.StatusNotFound)

		unrunnable := w.Create(apptest.With(runstest.Judged(runstest.Trigger("a")), object{"verifier_kind": "structured_rubric"}))
		foreign := (&runstest.Client{Caller: other, World: w.World}).Create(runstest.Judged(runstest.Trigger("a")))
		many := make([]any, 21)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		for _, bad := range []struct {
			field  string
			policy object
		}{
			{"mode", object{}},
			{"suites", object{"mode": "off", "suites": []any{uuid.NewString()}}},
			{"suites", object{"mode": "off", "suites": []any{foreign["id"]}}},
			{"suites", object{"mode": "off", "suites": []any{unrunnable["id"]}}},
			{"suites", object{"mode": "off", "suites": many}},
			{"trials", object{"mode": "off", "trials": 0}},
			{"trials", object{"mode": "off", "trials": 31}},
			{"min_cases", object{"mode": "off", "min_cases": -1}},
			{"max_cost_usd", object{"mode": "off", "max_cost_usd": 0}},
			{"max_cost_usd", object{"mode": "off", "max_cost_usd": "much"}},
			{"max_minutes", object{"mode": "off", "max_minutes": 0}},
			{"approvals", object{"mode": "off", "approvals": 21}},
			{"agent", object{"mode": "off", "agent": "claude"}},
			{"floors.pass_rate", object{"mode": "off", "floors": object{"pass_rate": 1.1}}},
			{"floors.skill_md_tokens", object{"mode": "off", "floors": object{"skill_md_tokens": 0}}},
		} {
			w.Do(http.MethodPut, path, object{"policy": bad.policy}).WantIssueWith(bad.field, bad.field)
		}
	})
}

// TestOffCostsNothing: without a policy a push makes no gate.
func TestOffCostsNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		pushed := w.push("1.1.0").Want(http.StatusCreated).Object()
		apptest.WantKeys(t, pushed, "entry", "version")
		if v := pushed["version"].(object); v["state"] != "published" || v["gate_id"] != nil {
			t.Errorf("the version is %v", v)
		}
		if n := w.Count("gates"); n != 0 {
			t.Errorf("%d gates", n)
		}
	})
}
