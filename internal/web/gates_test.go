package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

func TestGatePages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, viewer := w.as(access.AdminRole), w.as(access.Viewer)
		checkPage(t, admin.get("/gates").want(http.StatusOK).wantText("No gates"))
		entry := admin.push("pdf", "1.0.0", map[string]string{"SKILL.md": skillText("pdf", "Extracts tables of files", "x")})
		admin.push("other", "1.0.0", map[string]string{"SKILL.md": skillText("other", "Tells the weather", "x")})
		var cases []object
		for i := range 10 {
			cases = append(cases, object{
				"id": fmt.Sprint("c", i), "name": fmt.Sprint("Case <", i, ">"), "case_kind": "trigger_query",
				"query": fmt.Sprint("extracts tables ", i), "expectation": "should_trigger",
			})
		}
		suite := admin.api.Post("/api/v1/eval-suites", object{
			"name": "Queries", "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": cases,
		}).Want(http.StatusCreated).Text("suite", "id")

		path := "/registry/" + entry + "/gate-policy"
		p := admin.get(path).want(http.StatusOK).wantText("Gate policy of pdf", "policy of all entries", "Queries").wantForms(path)
		checkPage(t, p)
		checkPage(t, viewer.get(path).want(http.StatusOK).wantForms())
		checkPage(t, admin.get("/settings/gate-policy").want(http.StatusOK).wantForms("/settings/gate-policy"))
		form := url.Values{
			"mode": {"enforce"}, "suite": {suite}, "trials": {"2"}, "min_cases": {"5"}, "max_minutes": {"10"}, "on_inconclusive": {"hold"},
			"max_cost_usd": {"1,5"}, "pass_rate": {"57"}, "trigger_recall": {""}, "skill_md_tokens": {"5000"}, "validation": {"warn"},
		}
		admin.post(path, form).wantLocation(path)
		policy := admin.api.Get("/api/v1/registry/" + entry + "/gate-policy").Want(http.StatusOK).Field("policy")
		if policy["mode"] != "enforce" || policy["trials"] != 2.0 || policy["max_cost_usd"] != 1.5 || fmt.Sprint(policy["suites"]) != "["+suite+"]" {
			t.Errorf("the policy is %v", policy)
		}
		if floors, _ := policy["floors"].(object); floors["pass_rate"] != 0.57 {
			t.Errorf("the floors are %v", floors)
		}
		if got := attr(admin.get(path).all("input#pass_rate")[0], "value"); got != "57" {
			t.Errorf("the floor of the pass rate is shown as %s", got)
		}
		bad := url.Values{}
		for key, value := range form {
			bad[key] = value
		}
		bad.Set("trials", "many")
		bad.Set("pass_rate", "200")
		checkPage(t, admin.post(path, bad).want(http.StatusBadRequest).wantText("Trials per case: enter a whole number.", "Minimum pass rate: enter a number from 0 to 100, or leave it empty."))
		viewer.post(path, form).want(http.StatusForbidden)

		admin.hold("pdf", "1.1.0", map[string]string{"SKILL.md": skillText("pdf", "Tells jokes", "x")})
		var gate string
		apptest.Eventually(t, "the verdict", func() bool {
			gates := admin.api.Get("/api/v1/gates").List("gates")
			gate = "/gates/" + gates[0]["id"].(string)
			return gates[0]["decided_at"] != nil
		})
		checkPage(t, viewer.get("/gates?verdict=block").want(http.StatusOK).wantText("pdf 1.1.0", "block"))
		p = viewer.get(gate).want(http.StatusOK).wantText("Gate of pdf 1.1.0", "block", "Queries", "Case <3>", "0 of 2", "Sign test", "p = 0.0020", "Runs 1.1.0 · 1.0.0").wantForms()
		checkPage(t, p)
		checkPage(t, viewer.get(p.href("Case <3>")).want(http.StatusOK).wantText("Case <3>", "Before: with the skill 1.0.0", "After: with the skill 1.1.0"))
		trials, err := url.Parse(p.href("Case <3>"))
		if err != nil {
			t.Fatal(err)
		}
		// Of the two runs the one of the current version is the one before.
		viewer.get(strings.Replace(trials.Path, "/trials/1/", "/", 1) + "?with=" + trials.Query().Get("with")).want(http.StatusOK).wantText("pdf 1.0.0 After,")
		w.otherOrg(access.Team).get(gate).want(http.StatusNotFound)
		admin.api.Do(http.MethodPut, "/api/v1/settings/gate-policy", object{"policy": object{"mode": "enforce", "floors": object{"skill_md_tokens": 1}}}).
			Want(http.StatusOK)
		admin.hold("fresh", "0.1.0", map[string]string{"SKILL.md": skillText("fresh", "Is new", "x")})
		checkPage(t, viewer.get("/registry").want(http.StatusOK).wantText("pdf", "fresh", "no current version"))
		checkPage(t, viewer.get("/registry/"+entry).want(http.StatusOK).wantText("blocked gate"))

		checkPage(t, admin.post(gate+"/override", url.Values{"reason": {" "}}).want(http.StatusBadRequest).wantText("Reason is required"))
		admin.post(gate+"/override", url.Values{"reason": {"jokes are in"}}).wantLocation(gate)
		checkPage(t, admin.get(gate).wantText("made the version current anyway", "jokes are in"))
		checkPage(t, admin.post(gate+"/rerun", nil).want(http.StatusConflict).wantText("nothing to decide"))
	})
}
