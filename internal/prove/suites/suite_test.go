package suites_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// TestCreate checks every field of a suite in create, get, list and patch.
func TestCreate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		source := c.Source()
		body := with(judged(with(trigger("extract the tables"), object{"id": "one", "extra": object{"kept": []int{1}}})),
			object{"source_id": "src_" + source, "supports_no_skill": true, "resource_limits_json": object{"memory_mb": 512}, "unknown": 1})
		suite := c.Create(body)
		for _, field := range []string{"created_at", "updated_at"} {
			at, _ := suite[field].(string)
			if parsed, err := time.Parse("2006-01-02T15:04:05.000Z", at); err != nil || time.Since(parsed).Abs() > time.Minute {
				t.Errorf("%s is %q", field, at)
			}
		}
		if _, err := uuid.Parse(suite["id"].(string)); err != nil {
			t.Errorf("id is %v", suite["id"])
		}
		want := apptest.Plain(t, object{
			"id": suite["id"], "source_id": source, "name": "Triggers", "source_kind": "manual", "verifier_kind": "llm_judge",
			"supports_no_skill": true, "resource_limits_json": object{"memory_mb": 512}, "case_count": 1,
			"cases_json": body["cases_json"], "suite_kind": "cases", "runnable": true, "runnability_issues": []any{},
			"version": 1, "created_at": suite["created_at"], "updated_at": suite["updated_at"],
		}).(object)
		if diff := cmp.Diff(want, suite); diff != "" {
			t.Errorf("created (-want +got):\n%s", diff)
		}
		id := suite["id"].(string)
		c.Get(suitesPath + "/" + id).Want(http.StatusOK).WantBody(object{"suite": want})
		c.Get(suitesPath).Want(http.StatusOK).WantBody(object{
			"suites": []object{want}, "pagination": object{"page": 1, "per_page": 100, "total": 1},
		})
		c.Get(suitesPath + "?cases=false").Want(http.StatusOK).WantBody(object{
			"suites": []object{without(want, "cases_json")}, "pagination": object{"page": 1, "per_page": 100, "total": 1},
		})
		patched := c.Patch(id, object{"name": "Renamed"}).Want(http.StatusOK).Field("suite")
		if diff := cmp.Diff(with(want, object{"name": "Renamed", "version": 2.0, "updated_at": patched["updated_at"]}), patched); diff != "" {
			t.Errorf("patched (-want +got):\n%s", diff)
		}
	})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		suite := runstest.New(t, db).Org("acme").Create(judged(trigger("a")))
		if suite["source_id"] != nil || suite["supports_no_skill"] != false || suite["resource_limits_json"] != nil {
			t.Errorf("got %v", suite)
		}
	})
}

// TestRefused has a row for every reason not to store a suite.
func TestRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		pkg := object{"case_kind": "task_package", "environment_ref": "s3://bucket/env.tar.gz"}
		for _, row := range []struct {
			name string
			body any
			part string
			path string
		}{
			{"not JSON", "{", "", ""},
			{"no cases", judged(), "", "cases_json"},
			{"501 cases", judged(triggers(501)...), "", "cases_json"},
			{"cases missing", without(judged(), "cases_json"), "", "cases_json"},
			{"cases null", `{"name":"a","source_kind":"manual","verifier_kind":"llm_judge","cases_json":null}`, "", "cases_json"},
			{"cases an object", with(judged(), object{"cases_json": object{}}), "", "cases_json"},
			{"a case that is no object", `{"name":"a","source_kind":"manual","verifier_kind":"llm_judge","cases_json":[{"query":"a"},7]}`, "", "cases_json.1"},
			{"name missing", without(judged(trigger("a")), "name"), "", "name"},
			{"name empty", with(judged(trigger("a")), object{"name": ""}), "", "name"},
			{"name blank", with(judged(trigger("a")), object{"name": "  "}), "blank", "name"},
			{"name too long", with(judged(trigger("a")), object{"name": strings.Repeat("n", 201)}), "", "name"},
			{"name a number", with(judged(trigger("a")), object{"name": 7}), "", "name"},
			{"source_kind missing", without(judged(trigger("a")), "source_kind"), "", "source_kind"},
			{"source_kind unknown", with(judged(trigger("a")), object{"source_kind": "found"}), "", "source_kind"},
			{"verifier_kind missing", without(judged(trigger("a")), "verifier_kind"), "", "verifier_kind"},
			{"verifier_kind unknown", with(judged(trigger("a")), object{"verifier_kind": "oracle"}), "", "verifier_kind"},
			{"supports_no_skill a string", with(judged(trigger("a")), object{"supports_no_skill": "yes"}), "", "supports_no_skill"},
			{"resource_limits_json an array", with(judged(trigger("a")), object{"resource_limits_json": []int{1}}), "", "resource_limits_json"},
			{"source_id no id", with(judged(trigger("a")), object{"source_id": "src_1"}), "source_id", "source_id"},
			{"kind for the other verifier", judged(trigger("a"), object{"case_kind": "exact_match"}), "exact_match", "cases_json.1.case_kind"},
			{"judged kind in a deterministic suite", deterministic(trigger("a")), "exact_match, json_schema, boolean_assertion, task_package", "cases_json.0.case_kind"},
			{"unknown kind", judged(object{"case_kind": "vibes"}), "vibes", "cases_json.0.case_kind"},
			{"kind a number", judged(object{"case_kind": 7}), "string", "cases_json.0.case_kind"},
			{"inferred kind for the other verifier", judged(object{"schema": object{}}), "json_schema", "cases_json.0.case_kind"},
			{"package without environment", deterministic(pkg, without(pkg, "environment_ref")), "required", "cases_json.1.environment_ref"},
			{"environment blank", deterministic(with(pkg, object{"environment_ref": " "})), "required", "cases_json.0.environment_ref"},
			{"environment a number", deterministic(with(pkg, object{"environment_ref": 7})), "required", "cases_json.0.environment_ref"},
			{"environment a path", deterministic(with(pkg, object{"environment_ref": "env.tar.gz"})), "http", "cases_json.0.environment_ref"},
			{"environment without key", deterministic(with(pkg, object{"environment_ref": "s3://bucket/"})), "http", "cases_json.0.environment_ref"},
			{"environment a local file", deterministic(with(pkg, object{"environment_ref": "file:///etc/passwd"})), "http", "cases_json.0.environment_ref"},
			{"environment of another organisation", deterministic(with(pkg, object{"environment_ref": "blob://evals/" + uuid.NewString() + "/" + strings.Repeat("a", 64) + ".tar.gz"})), "imported", "cases_json.0.environment_ref"},
			{"environment outside the folder", deterministic(with(pkg, object{"environment_ref": "blob://registry/x"})), "imported", "cases_json.0.environment_ref"},
			{
				"package without environment in a rubric suite", with(judged(object{"case_kind": "task_package"}), object{"verifier_kind": "structured_rubric"}),
				"required",
				"cases_json.0.environment_ref",
			},
		} {
			t.Run(row.name, func(t *testing.T) {
				c.In(t).Post(suitesPath, row.body).WantIssueWith(row.path, row.part)
			})
		}
		if n := len(apptest.List(t, c.Get(suitesPath).Object(), "suites")); n != 0 {
			t.Errorf("%d suites were stored", n)
		}
	})
}

func triggers(n int) []object {
	all := make([]object, n)
	for i := range all {
		all[i] = trigger(fmt.Sprint("query ", i))
	}
	return all
}

func TestMostCases(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		all := triggers(500)
		for _, o := range all {
			o["note"] = strings.Repeat("<é>", 120) // near the limit of a body
		}
		suite := c.Create(judged(all...))
		if n := len(apptest.List(t, suite, "cases_json")); n != 500 || suite["case_count"] != 500.0 {
			t.Errorf("%d cases, case_count %v", n, suite["case_count"])
		}
		c.Patch(suite["id"].(string), object{"cases_json": triggers(501)}).WantIssueWith("cases_json", "")
		c.Patch(suite["id"].(string), object{"cases_json": []object{}}).WantIssueWith("cases_json", "")
	})
}

// TestSourceOfSuite: a suite can only be for a source of its organisation.
func TestSourceOfSuite(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c, other := w.Org("acme"), w.Org("other")
		c.Post(suitesPath, with(judged(trigger("a")), object{"source_id": other.Source()})).WantErrorWith(http.StatusForbidden,
			"another organisation")
		c.Post(suitesPath, with(judged(trigger("a")), object{"source_id": uuid.NewString()})).WantErrorWith(http.StatusNotFound,
			"Cloud source not found")
	})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c, other := w.Org("acme"), w.Org("other")
		source := c.Source()
		other.Create(judged(trigger("a")))
		c.Create(with(judged(trigger("a")), object{"name": "1", "source_id": source}))
		c.Create(with(deterministic(object{"output": "a", "expected": "a"}), object{"name": "2", "source_id": "src_" + source}))
		c.Create(with(judged(trigger("a")), object{"name": "3"}))
		for query, want := range map[string][]string{
			"":                               {"3", "2", "1"},
			"?source_id=" + source:           {"2", "1"},
			"?source_id=src_" + source:       {"2", "1"},
			"?verifier_kind=llm_judge":       {"3", "1"},
			"?page=2&per_page=2":             {"1"},
			"?source_id=" + uuid.NewString(): {},
			"?verifier_kind=deterministic&source_id=" + source: {"2"},
		} {
			names := []string{}
			for _, s := range apptest.List(t, c.Get(suitesPath+query).Want(http.StatusOK).Object(), "suites") {
				names = append(names, s["name"].(string))
			}
			if !slices.Equal(names, want) {
				t.Errorf("%s: got %v, want %v", query, names, want)
			}
		}
		c.Get(suitesPath+"?source_id=7").WantIssueWith("source_id", "source_id")
		c.Get(suitesPath+"?verifier_kind=oracle").WantIssueWith("verifier_kind", "")
	})
}

// TestListMemory: a list with cases reserves its memory until the request is
// answered, a list without them needs none.
func TestListMemory(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		const capacity = 1 << 20
		w := runstest.New(t, db)
		w.Suites.Memory = httpapi.NewBudget(capacity, 0)
		c := w.Org("acme")
		c.Create(judged(trigger(strings.Repeat("ä", 100<<10)))) // more than a quarter of the capacity with its copies
		list := func(ctx context.Context, withCases bool) error {
			found, _, err := w.Suites.List(ctx, c.Org.ID, suites.Filter{WithCases: withCases, Page: store.Page{Limit: 100}})
			if err == nil && (len(found) != 1 || (found[0].Document != nil) != withCases) {
				t.Errorf("got %v", found)
			}
			return err
		}
		request, answered := context.WithCancel(t.Context())
		if err := list(request, true); err != nil {
			t.Fatal(err)
		}
		waiting, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if release, err := w.Suites.Memory.Reserve(waiting, capacity); err == nil {
			release()
			t.Error("the list reserved nothing")
		}
		answered()
		release, err := w.Suites.Memory.Reserve(t.Context(), capacity)
		if err != nil {
			t.Fatalf("after the answer: %v", err)
		}
		defer release()
		if err := list(t.Context(), false); err != nil {
			t.Errorf("without cases: %v", err)
		}
		waiting, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := list(waiting, true); err == nil {
			t.Error("a list with cases does not wait for memory")
		}
	})
}

func TestPatch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c := w.Org("acme")
		id := c.Create(judged(trigger("a"), trigger("b")))["id"].(string)
		suite := c.Patch(id, object{
			"verifier_kind": "deterministic", "supports_no_skill": true, "resource_limits_json": object{"cpus": 1},
			"cases_json": []object{{"output": "x", "expected": "x"}}, "source_kind": "imported",
		}).Want(http.StatusOK).Field("suite")
		cases := apptest.List(t, suite, "cases_json")
		if len(cases) != 1 || cases[0]["case_kind"] != "exact_match" || suite["verifier_kind"] != "deterministic" ||
			suite["supports_no_skill"] != true || suite["source_kind"] != "manual" || suite["runnable"] != true {
			t.Errorf("got %v", suite)
		}
		unchanged := c.Patch(id, object{}).Want(http.StatusOK).Field("suite")
		if diff := cmp.Diff(with(suite, object{"version": 3.0, "updated_at": unchanged["updated_at"]}), unchanged); diff != "" {
			t.Errorf("an empty patch (-want +got):\n%s", diff)
		}
		c.Patch(id, object{"verifier_kind": "llm_judge"}).WantIssueWith("cases_json.0.case_kind", "exact_match")
		c.Patch(id, object{"cases_json": []object{trigger("a")}}).WantIssueWith("cases_json.0.case_kind", "trigger_query")
		c.Patch(id, object{"name": " "}).WantIssueWith("name", "blank")
		c.Patch(id, object{"name": 7}).WantIssueWith("name", "")
		c.Patch(id, object{"name": "late", "if_version": 1}).WantErrorWith(http.StatusConflict, "has changed")
		c.Patch(id, object{"name": "in time", "if_version": 3}).Want(http.StatusOK)
		c.Patch(uuid.NewString(), object{"cases_json": []object{{"case_kind": "task_package"}}}).WantIssueWith("cases_json.0.environment_ref", "required")
		c.Patch(uuid.NewString(), object{"name": "x"}).WantErrorWith(http.StatusNotFound, "Eval suite not found")
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		path := suitesPath + "/" + c.Create(judged(trigger("a")))["id"].(string)
		if a := c.Do(http.MethodDelete, path, nil).Want(http.StatusNoContent); len(a.Body) > 0 {
			t.Errorf("body %q", a.Body)
		}
		c.Get(path).WantErrorWith(http.StatusNotFound, "Eval suite not found")
		c.Do(http.MethodDelete, path, nil).WantErrorWith(http.StatusNotFound, "Eval suite not found")
	})
}

// TestAccess calls every route of suites with other roles and organisations.
func TestAccess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := runstest.New(t, db)
		c, stranger := w.Org("acme"), w.Org("other")
		path := suitesPath + "/" + c.Create(judged(trigger("a")))["id"].(string)
		viewer, member := w.Member(c.Org, access.Viewer), w.Member(c.Org, access.Member)
		nobody := w.Anonymous()
		nobody.Key = "st_live_nonsense"
		for _, row := range []struct {
			method, path             string
			body                     any
			viewer, member, stranger int
		}{
			{"GET", suitesPath, nil, 200, 200, 200},
			{"POST", suitesPath, judged(trigger("a")), 403, 201, 201},
			{"POST", suitesPath, judged(), 403, 400, 400},
			{"GET", path, nil, 200, 200, 404},
			{"GET", path + "/", nil, 200, 200, 404},
			{"GET", path + "/export", nil, 200, 200, 404},
			{"PATCH", path, object{"name": "b"}, 403, 200, 404},
			{"DELETE", path, nil, 403, 204, 404},
		} {
			stranger.Do(row.method, row.path, row.body).Want(row.stranger)
			nobody.Do(row.method, row.path, row.body).Want(http.StatusUnauthorized)
			a := viewer.Do(row.method, row.path, row.body)
			if row.viewer == http.StatusForbidden {
				a.WantErrorWith(http.StatusForbidden, "write")
			} else {
				a.Want(row.viewer)
			}
			member.Do(row.method, row.path, row.body).Want(row.member)
		}
		viewer.Import("a.json", []byte(`[]`)).WantErrorWith(http.StatusForbidden, "write")
	})
}
