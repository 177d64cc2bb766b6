package gates_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const protected = "protected_suite"

// trivial are cases that every version passes.
var trivial = object{"cases_json": []any{object{"case_kind": "exact_match", "output": "x", "expected": "x"}}, "verifier_kind": "deterministic"}

// TestNamedSuite: a suite that an enforcing policy names is changed by admins, and by
// people who own all entries whose policy does.
func TestNamedSuite(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		suite := runstest.SuitesPath + "/" + w.suite["id"].(string)
		member := w.Member(w.Caller.Org, access.Member)
		narrow := w.World.World.Member(w.Caller.Org, access.AdminRole, access.Read, access.Write)
		rename := object{"name": "Mine"}
		aggregate, err := os.ReadFile("../../prove/runs/imported/testdata/aggregate-result.json")
		if err != nil {
			t.Fatal(err)
		}
		w.enforce(object{"mode": "report"})
		member.Do(http.MethodPatch, suite, rename).Want(http.StatusOK)

		w.enforce()
		for _, c := range []*apptest.Caller{member.Caller, narrow} {
			c.Do(http.MethodPatch, suite, trivial).WantCode(http.StatusForbidden, protected, "pdf", "an admin may change it, or an owner of pdf")
			c.Do(http.MethodPatch, suite, object{"resource_limits_json": object{"timeout_ms": 1}}).WantCode(http.StatusForbidden, protected)
			c.Do(http.MethodPatch, suite, rename).WantCode(http.StatusForbidden, protected)
			c.Do(http.MethodDelete, suite, nil).WantCode(http.StatusForbidden, protected)
			c.Upload(suite+"/runs/import", apptest.Part{Name: "file", File: "aggregate-result.json", Content: aggregate}).
				WantCode(http.StatusForbidden, protected)
		}
		w.Do(http.MethodPatch, suite, rename).Want(http.StatusOK)

		owners := func(entry string, users ...any) {
			t.Helper()
			w.Do(http.MethodPut, "/api/v1/registry/"+entry+"/owners", object{"users": append([]any{}, users...), "teams": []any{}}).Want(http.StatusOK)
		}
		owners(w.entry, member.User.ID)
		member.Do(http.MethodPatch, suite, rename).Want(http.StatusOK)
		csv := w.csv().Want(http.StatusCreated).Text("entry", "id")
		policy := object{"mode": "enforce", "suites": []any{w.suite["id"]}}
		w.Do(http.MethodPut, "/api/v1/registry/"+csv+"/gate-policy", policy).Want(http.StatusOK)
		member.Do(http.MethodPatch, suite, rename).WantCode(http.StatusForbidden, protected, "csv and pdf", "a person who owns all of them")
		owners(csv, member.User.ID)
		member.Do(http.MethodPatch, suite, rename).Want(http.StatusOK)

		// The default counts for entries without a policy of their own.
		other := w.Create(runstest.Judged(runstest.Trigger("a")))
		path := runstest.SuitesPath + "/" + other["id"].(string)
		w.Do(http.MethodPut, "/api/v1/settings/gate-policy", object{"mode": "enforce", "suites": []any{other["id"]}}).Want(http.StatusOK)
		member.Do(http.MethodPatch, path, rename).WantCode(http.StatusForbidden, protected, "default gate policy", "an admin")
		w.OrgWithPlan("other", access.Team).Do(http.MethodPatch, path, rename).Want(http.StatusNotFound)
	})
}

// source makes a source that is measured as the entry's skill, with a suite.
func (w *world) source() (source, suite string) {
	w.T.Helper()
	source = w.Post("/api/v1/cloud-sources", object{"type": "upload", "label": "pdf", "skill_id": w.skill(w.entry)}).Want(http.StatusCreated).Text("id")
	made := w.Post(runstest.SuitesPath, object{
		"name": "Of the source", "source_id": source, "source_kind": "manual", "verifier_kind": "llm_judge", "cases_json": w.suite["cases_json"],
	}).Want(http.StatusCreated)
	return source, made.Text("suite", "id")
}

// csv makes another entry.
func (w *world) csv() apptest.Response {
	w.T.Helper()
	return w.Upload("/api/v1/registry",
		apptest.Part{Name: "metadata", Content: []byte(`{"name":"csv","version":"1.0.0"}`)},
		apptest.Part{
			Name: "archive", File: "skill.tar.gz", Content: runstest.Archive("csv", "---\nname: csv\ndescription: Reads.\n---\nDo it.\n"),
		})
}

// skill is the id of the skill that an entry is measured as.
func (w *world) skill(entry string) string {
	w.T.Helper()
	e, err := w.Registry.Own(w.T.Context(), w.Caller.Org.ID, entry)
	if err != nil {
		w.T.Fatal(err)
	}
	return *e.SkillID
}

// TestSuitesOfSources: where the policy names no suite, those of the skill's sources, and
// the links of those, are as well guarded.
func TestSuitesOfSources(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		source, suite := w.source()
		csv := w.csv().Want(http.StatusCreated).Text("entry", "id")
		w.enforce(object{"suites": []any{}})
		member := w.Member(w.Caller.Org, access.Member)
		path, suitePath := "/api/v1/cloud-sources/"+source, runstest.SuitesPath+"/"+suite
		refused := func(r apptest.Response) {
			t.Helper()
			r.WantCode(http.StatusForbidden, protected, "pdf")
		}
		foreign := member.Post("/api/v1/cloud-sources", object{"type": "upload", "label": "mine"}).Want(http.StatusCreated).Text("id")
		ofForeign := object{
			"name": "Mine", "source_id": foreign, "source_kind": "manual", "verifier_kind": "deterministic", "cases_json": trivial["cases_json"],
		}
		member.Post(runstest.SuitesPath, ofForeign).Want(http.StatusCreated)
		linked := member.Post("/api/v1/cloud-sources", object{"type": "upload", "label": "x", "skill_id": w.skill(w.entry)}).Want(http.StatusCreated).Text("id")

		refused(member.Do(http.MethodPatch, suitePath, trivial))
		refused(member.Do(http.MethodDelete, suitePath, nil))
		refused(member.Do(http.MethodDelete, path, nil))
		refused(member.Do(http.MethodPatch, path, object{"skill_id": ""}))
		refused(member.Do(http.MethodPatch, path, object{"label": "x", "skill_id": w.skill(csv)}))
		// More suites of the skill would crowd out those that the gate reads.
		refused(member.Do(http.MethodPatch, "/api/v1/cloud-sources/"+foreign, object{"skill_id": w.skill(w.entry)}))
		refused(member.Post(runstest.SuitesPath, apptest.With(ofForeign, object{"source_id": source})))
		refused(member.Post(runstest.SuitesPath, apptest.With(ofForeign, object{"source_id": linked})))
		refused(member.Upload(runstest.SuitesPath+"/import", apptest.Part{Name: "source_id", Content: []byte(source)},
			apptest.Part{Name: "file", File: "evals.json", Content: []byte(`[{"query":"a","should_trigger":true}]`)}))
		member.Do(http.MethodPatch, path, object{"label": "renamed"}).Want(http.StatusOK)

		// A suggestion that a member accepts for the suite is a draft.
		suggestion := object{"query": "from a session", "should_trigger": true, "source": "linked_telemetry", "provenance": "missed_query"}
		id := uuid.NewString()
		refused(member.Post(path+"/eval-suggestions/"+id+"/apply-to-suite", apptest.With(suggestion, object{"suite_id": suite})))
		accepted := apptest.With(suggestion, object{
			"suggestion_id": id, "review_status": "accepted", "accept_target": "saved_suite", "applied_suite_id": suite,
		})
		review := member.Post(path+"/eval-suggestions/review", accepted).Want(http.StatusOK).Field("review")
		if review["acceptTarget"] != "draft" || review["appliedSuiteId"] != nil {
			t.Errorf("the review of a member is %v", review)
		}
		refused(member.Post(path+"/drafts/apply", object{"suite_id": suite}))
		review = w.Post(path+"/eval-suggestions/review", accepted).Want(http.StatusOK).Field("review")
		if review["acceptTarget"] != "saved_suite" || review["appliedSuiteId"] != suite {
			t.Errorf("the review of an admin is %v", review)
		}
		// The same again adds nothing, and stays what it was.
		review = member.Post(path+"/eval-suggestions/review", accepted).Want(http.StatusOK).Field("review")
		if review["acceptTarget"] != "saved_suite" {
			t.Errorf("the same review again is %v", review)
		}
		if n := w.Count("eval_suites WHERE id = $1 AND case_count = 21", suite); n != 1 {
			t.Error("the suite does not have the case of the admin alone")
		}
	})
}

// TestTakenSuites: an enforced gate without a suite holds, unless the entry never had one.
func TestTakenSuites(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		w.enforce(object{"suites": []any{}})
		push := func(version, verdict, state string, current bool) {
			t.Helper()
			if gate := w.decided(w.push(version).Want(http.StatusAccepted).Text("gate", "id")); gate["verdict"] != verdict {
				t.Errorf("the gate of %s says %v: %v", version, gate["verdict"], gate["reason"])
			}
			w.want(version, state, current)
		}
		push("1.1.0", "skipped", "published", true)
		source, suite := w.source()
		path := "/api/v1/cloud-sources/" + source
		w.Do(http.MethodPatch, path, object{"skill_id": ""}).Want(http.StatusOK)
		push("1.2.0", "inconclusive", "candidate", false)
		w.Do(http.MethodPatch, path, object{"skill_id": w.skill(w.entry)}).Want(http.StatusOK)
		push("1.3.0", "pass", "published", true)
		w.Do(http.MethodDelete, runstest.SuitesPath+"/"+suite, nil).Want(http.StatusNoContent)
		push("1.4.0", "inconclusive", "candidate", false)
		gone := apptest.List(t, w.gate(w.version("1.4.0")["gate_id"].(string)), "suites")
		if len(gone) != 1 || gone[0]["suite_id"] != suite {
			t.Fatalf("the gate shows the suites %v, want the deleted one", gone)
		}
		changes := apptest.List(t, gone[0], "changed_since_last_gate")
		if len(changes) != 1 || changes[0]["by"] != w.User.ID || len(changes[0]["removed"].([]any)) == 0 {
			t.Errorf("the gate shows the changes %v, want who removed all cases", changes)
		}
		w.Do(http.MethodDelete, path, nil).Want(http.StatusNoContent)
		push("1.5.0", "inconclusive", "candidate", false)
		w.enforce(object{"suites": []any{}, "on_inconclusive": "pass"})
		push("1.6.0", "inconclusive", "published", true)
	})
}

// TestSuiteChanges: a gate says who changed its suites since the last one, and names the
// cases that were removed. Asking for the gate of a folder hides nothing.
func TestSuiteChanges(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.enforce()
		w.Work()
		changes := func(id string) []object {
			t.Helper()
			return apptest.List(t, apptest.List(t, w.decided(id), "suites")[0], "changed_since_last_gate")
		}
		push := func(version string) []object {
			t.Helper()
			return changes(w.push(version).Want(http.StatusAccepted).Text("gate", "id"))
		}
		if got := push("1.1.0"); len(got) != 0 {
			t.Errorf("the first gate shows %v", got)
		}
		path := runstest.SuitesPath + "/" + w.suite["id"].(string)
		all := w.Get(path).Want(http.StatusOK).Field("suite")["cases_json"].([]any)
		fewer := append([]any{apptest.With(runstest.Trigger("query 1 again"), object{"id": "case-1"})}, all[2:]...)
		w.Do(http.MethodPatch, path, object{"cases_json": fewer, "resource_limits_json": object{"timeout_ms": 1000}}).Want(http.StatusOK)
		snapshot := w.Upload("/api/v1/cloud-sources/upload", apptest.Part{Name: "label", Content: []byte("folder")},
			apptest.Part{Name: "file", File: "skill.tar.gz", Content: archiveOf("1.2.0")}).Want(http.StatusCreated).Text("snapshot", "id")
		changes(w.Post("/api/v1/registry/"+w.entry+"/gates", object{"snapshot_id": snapshot}).Want(http.StatusAccepted).Text("gate", "id"))
		w.Do(http.MethodPatch, path, object{"cases_json": append(fewer, runstest.Trigger("query 20"))}).Want(http.StatusOK)
		got := push("1.2.0")
		if len(got) != 2 {
			t.Fatalf("the gate shows %v", got)
		}
		apptest.WantKeys(t, got[0], "by", "email", "at", "added", "removed", "changed", "settings")
		if got[0]["by"] != w.User.ID || got[0]["email"] != w.User.Email {
			t.Errorf("who: %v", got[0])
		}
		for field, want := range map[string]string{
			"added": "", "removed": "query 0", "changed": "query 1 again", "settings": "resource_limits_json",
		} {
			if text := joined(got[0][field]); text != want {
				t.Errorf("%s: %q, want %q", field, text, want)
			}
		}
		if joined(got[1]["added"]) != "query 20" || joined(got[1]["removed"]) != "" {
			t.Errorf("the second change is %v", got[1])
		}
		if got := push("1.3.0"); len(got) != 0 {
			t.Errorf("the next gate shows %v", got)
		}
	})
}

func joined(list any) string {
	var all []string
	for _, v := range list.([]any) {
		all = append(all, v.(string))
	}
	return strings.Join(all, ", ")
}

// TestLowerPolicy: only people with registry:rollback lower a policy, whatever the request
// leaves out.
func TestLowerPolicy(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		path := "/api/v1/registry/" + w.entry + "/gate-policy"
		full := object{
			"mode": "enforce", "suites": []any{w.suite["id"]}, "approvals": 2,
			"floors": object{"validation": "pass", "pass_rate": 0.8, "trigger_recall": 0.9, "skill_md_tokens": 5000},
		}
		narrow := w.World.World.Member(w.Caller.Org, access.AdminRole, access.Read, access.Admin, access.RegistryRollback)
		admin := w.Member(w.Caller.Org, access.AdminRole)
		narrow.Do(http.MethodPut, path, full).Want(http.StatusOK) // raises it
		narrow.Do(http.MethodPut, path, apptest.With(full, object{"trials": 5, "approvals": 3})).Want(http.StatusOK)
		for field, change := range map[string]object{
			"mode": {"mode": "report"}, "approvals": {"approvals": 2}, "self_approval": {"self_approval": true},
			"host_reviews": {"host_reviews": true}, "on_inconclusive": {"on_inconclusive": "pass"}, "floors.validation": {"floors": object{}},
			"suites": {"suites": []any{}}, "min_cases": {"min_cases": 1},
			"floors.pass_rate":       {"floors": object{"validation": "pass", "pass_rate": 0.7, "trigger_recall": 0.9, "skill_md_tokens": 5000}},
			"floors.trigger_recall":  {"floors": object{"validation": "pass", "pass_rate": 0.8, "skill_md_tokens": 5000}},
			"floors.skill_md_tokens": {"floors": object{"validation": "pass", "pass_rate": 0.8, "trigger_recall": 0.9, "skill_md_tokens": 5001}},
		} {
			lower := apptest.With(apptest.With(full, object{"approvals": 3}), change)
			narrow.Do(http.MethodPut, path, lower).WantErrorWith(http.StatusForbidden, "This lowers "+field)
		}
		narrow.Do(http.MethodPut, path, object{"mode": "enforce"}).
			WantErrorWith(http.StatusForbidden, "This lowers approvals, suites, floors.validation, floors.pass_rate")
		if p := w.Get(path).Field("policy"); p["approvals"] != 3.0 || p["mode"] != "enforce" {
			t.Errorf("the policy is %v", p)
		}
		admin.Do(http.MethodPut, path, object{"mode": "enforce", "floors": object{"skill_md_tokens": 1}}).Want(http.StatusOK)

		// A candidate that the gate keeps back stays one.
		w.Work()
		w.decided(w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id"))
		admin.Do(http.MethodPut, path, object{"mode": "off"}).Want(http.StatusOK)
		w.Settle()
		w.want("1.1.0", "candidate", false)
		admin.Post("/api/v1/registry/"+w.entry+"/versions/1.1.0/promote", object{"reason": "good"}).Want(http.StatusOK)
		w.want("1.1.0", "published", true)

		// The organisation's default, and a policy below it.
		standard := "/api/v1/settings/gate-policy"
		narrow.Do(http.MethodPut, standard, object{"mode": "report", "approvals": 1}).Want(http.StatusOK)
		narrow.Do(http.MethodPut, standard, object{"mode": "report"}).WantErrorWith(http.StatusForbidden, "approvals")
		csv := w.csv().Want(http.StatusAccepted).Text("entry", "id")
		narrow.Do(http.MethodPut, "/api/v1/registry/"+csv+"/gate-policy", object{"mode": "off"}).WantErrorWith(http.StatusForbidden, "This lowers mode, approvals")
		w.Member(w.Caller.Org, access.Member).Do(http.MethodPut, path, full).Want(http.StatusForbidden)
	})
}

// TestApart: versions that do not become current are candidates until they passed, and do
// not stand in the way of releases.
func TestApart(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		other := w.OrgWithPlan("other", access.Team)
		w.Exec("UPDATE registry_entries SET visibility = 'public' WHERE id = $1", w.entry)
		w.enforce()
		w.model.hang = make(chan struct{})
		w.Work()
		release := w.push("1.1.0").Want(http.StatusAccepted).Text("gate", "id")
		publish := func(version string) string {
			t.Helper()
			archive := archiveOf(version)
			pkg, err := skillpkg.Open(t.Context(), bytes.NewReader(archive), int64(len(archive)), skillpkg.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			v, made, err := w.Registry.PublishRepo(t.Context(), registry.RepoPublication{
				OrgID: w.Caller.Org.ID, UserID: w.User.ID, EntryID: w.entry, Version: version, Source: registry.FromRepohost,
				SourceRef: "x", SourceRepo: "acme/skills", SourceCommit: "5bb8228", SourcePath: ".", Package: pkg, Latest: true,
			})
			if err != nil || !made || v.GateID == nil {
				t.Fatalf("version %s: made %v, gate %v, %v", version, made, v.GateID, err)
			}
			w.want(version, "candidate", false)
			other.Get("/api/v1/registry/" + w.entry + "/versions/" + version + "/download").Want(http.StatusNotFound)
			return *v.GateID
		}
		w.model.decide(func(version, _ string, _ int) bool { return version != "0.5.0" })
		branch := publish("0.0.0-repohost.5bb8228")
		close(w.model.hang)
		if gate := w.decided(release); gate["verdict"] != "pass" {
			t.Errorf("the gate of the release says %v, %v", gate["status"], gate["reason"])
		}
		w.want("1.1.0", "published", true)
		if gate := w.decided(branch); gate["verdict"] != "pass" {
			t.Errorf("the gate of the branch says %v, %v", gate["status"], gate["reason"])
		}
		w.want("0.0.0-repohost.5bb8228", "published", false)
		tag := publish("0.5.0")
		if gate := w.decided(tag); gate["verdict"] != "block" {
			t.Errorf("the gate of the lower tag says %v, %v", gate["status"], gate["reason"])
		}
		w.want("0.5.0", "candidate", false)
		w.want("1.1.0", "published", true)
	})
}
