package suites_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestCreate checks every field of a suite in create, get, list and patch.
func TestCreate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.Org("acme")
		source := c.Source()
		body := with(judged(with(trigger("extract the tables"), "id", "one", "extra", object{"kept": []int{1}})),
			"source_id", "src_"+source, "supports_no_skill", true, "resource_limits_json", object{"memory_mb": 512}, "unknown", 1)
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
		want := plain(t, object{
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
			"suites": []object{with(want, "cases_json", nil)}, "pagination": object{"page": 1, "per_page": 100, "total": 1},
		})
		patched := c.Patch(id, object{"name": "Renamed"}).Want(http.StatusOK).Field("suite")
		if diff := cmp.Diff(with(want, "name", "Renamed", "version", 2.0, "updated_at", patched["updated_at"]), patched); diff != "" {
			t.Errorf("patched (-want +got):\n%s", diff)
		}
	})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		suite := newWorld(t, db).Org("acme").Create(judged(trigger("a")))
		if suite["source_id"] != nil || suite["supports_no_skill"] != false || suite["resource_limits_json"] != nil {
			t.Errorf("got %v", suite)
		}
	})
}

// TestRefused has a row for every reason not to store a suite.
func TestRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.Org("acme")
		pkg := object{"case_kind": "task_package", "environment_ref": "s3://bucket/env.tar.gz"}
		for _, row := range []struct {
			name string
			body any
			part string
			path []string
		}{
			{"not JSON", "{", "", []string{}},
			{"no cases", judged(), "", []string{"cases_json"}},
			{"501 cases", judged(triggers(501)...), "", []string{"cases_json"}},
			{"cases missing", with(judged(), "cases_json", nil), "", []string{"cases_json"}},
			{"cases null", `{"name":"a","source_kind":"manual","verifier_kind":"llm_judge","cases_json":null}`, "", []string{"cases_json"}},
			{"cases an object", with(judged(), "cases_json", object{}), "", []string{"cases_json"}},
			{"a case that is no object", `{"name":"a","source_kind":"manual","verifier_kind":"llm_judge","cases_json":[{"query":"a"},7]}`, "", []string{"cases_json", "1"}},
			{"name missing", with(judged(trigger("a")), "name", nil), "", []string{"name"}},
			{"name empty", with(judged(trigger("a")), "name", ""), "", []string{"name"}},
			{"name blank", with(judged(trigger("a")), "name", "  "), "blank", []string{"name"}},
			{"name too long", with(judged(trigger("a")), "name", strings.Repeat("n", 201)), "", []string{"name"}},
			{"name a number", with(judged(trigger("a")), "name", 7), "", []string{"name"}},
			{"source_kind missing", with(judged(trigger("a")), "source_kind", nil), "", []string{"source_kind"}},
			{"source_kind unknown", with(judged(trigger("a")), "source_kind", "found"), "", []string{"source_kind"}},
			{"verifier_kind missing", with(judged(trigger("a")), "verifier_kind", nil), "", []string{"verifier_kind"}},
			{"verifier_kind unknown", with(judged(trigger("a")), "verifier_kind", "oracle"), "", []string{"verifier_kind"}},
			{"supports_no_skill a string", with(judged(trigger("a")), "supports_no_skill", "yes"), "", []string{"supports_no_skill"}},
			{"resource_limits_json an array", with(judged(trigger("a")), "resource_limits_json", []int{1}), "", []string{"resource_limits_json"}},
			{"source_id no id", with(judged(trigger("a")), "source_id", "src_1"), "source_id", []string{"source_id"}},
			{"kind for the other verifier", judged(trigger("a"), object{"case_kind": "exact_match"}), "exact_match", []string{"cases_json", "1", "case_kind"}},
			{"judged kind in a deterministic suite", deterministic(trigger("a")), "exact_match, json_schema, boolean_assertion, task_package", []string{"cases_json", "0", "case_kind"}},
			{"unknown kind", judged(object{"case_kind": "vibes"}), "vibes", []string{"cases_json", "0", "case_kind"}},
			{"kind a number", judged(object{"case_kind": 7}), "string", []string{"cases_json", "0", "case_kind"}},
			{"inferred kind for the other verifier", judged(object{"schema": object{}}), "json_schema", []string{"cases_json", "0", "case_kind"}},
			{"package without environment", deterministic(pkg, with(pkg, "environment_ref", nil)), "required", []string{"cases_json", "1", "environment_ref"}},
			{"environment blank", deterministic(with(pkg, "environment_ref", " ")), "required", []string{"cases_json", "0", "environment_ref"}},
			{"environment a number", deterministic(with(pkg, "environment_ref", 7)), "required", []string{"cases_json", "0", "environment_ref"}},
			{"environment a path", deterministic(with(pkg, "environment_ref", "env.tar.gz")), "http", []string{"cases_json", "0", "environment_ref"}},
			{"environment without key", deterministic(with(pkg, "environment_ref", "s3://bucket/")), "http", []string{"cases_json", "0", "environment_ref"}},
			{"environment a local file", deterministic(with(pkg, "environment_ref", "file:///etc/passwd")), "http", []string{"cases_json", "0", "environment_ref"}},
			{"environment of another organisation", deterministic(with(pkg, "environment_ref",
				"blob://evals/"+uuid.NewString()+"/"+strings.Repeat("a", 64)+".tar.gz")), "imported", []string{"cases_json", "0", "environment_ref"}},
			{"environment outside the folder", deterministic(with(pkg, "environment_ref", "blob://registry/x")), "imported", []string{"cases_json", "0", "environment_ref"}},
			{
				"package without environment in a rubric suite", with(judged(object{"case_kind": "task_package"}), "verifier_kind", "structured_rubric"),
				"required",
				[]string{"cases_json", "0", "environment_ref"},
			},
		} {
			t.Run(row.name, func(t *testing.T) {
				c.In(t).Post(suitesPath, row.body).WantInvalid(row.part, row.path...)
			})
		}
		if n := len(list(t, c.Get(suitesPath).Object(), "suites")); n != 0 {
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
		c := newWorld(t, db).Org("acme")
		all := triggers(500)
		for _, o := range all {
			o["note"] = strings.Repeat("<é>", 120) // near the limit of a body
		}
		suite := c.Create(judged(all...))
		if n := len(list(t, suite, "cases_json")); n != 500 || suite["case_count"] != 500.0 {
			t.Errorf("%d cases, case_count %v", n, suite["case_count"])
		}
		c.Patch(suite["id"].(string), object{"cases_json": triggers(501)}).WantInvalid("", "cases_json")
		c.Patch(suite["id"].(string), object{"cases_json": []object{}}).WantInvalid("", "cases_json")
	})
}

// TestSourceOfSuite: a suite can only be for a source of its organisation.
func TestSourceOfSuite(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c, other := w.Org("acme"), w.Org("other")
		c.Post(suitesPath, with(judged(trigger("a")), "source_id", other.Source())).WantError(http.StatusForbidden,
			"another organisation")
		c.Post(suitesPath, with(judged(trigger("a")), "source_id", uuid.NewString())).WantError(http.StatusNotFound,
			"Cloud source not found")
	})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c, other := w.Org("acme"), w.Org("other")
		source := c.Source()
		other.Create(judged(trigger("a")))
		c.Create(with(judged(trigger("a")), "name", "1", "source_id", source))
		c.Create(with(deterministic(object{"output": "a", "expected": "a"}), "name", "2", "source_id", "src_"+source))
		c.Create(with(judged(trigger("a")), "name", "3"))
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
			for _, s := range list(t, c.Get(suitesPath+query).Want(http.StatusOK).Object(), "suites") {
				names = append(names, s["name"].(string))
			}
			if !slices.Equal(names, want) {
				t.Errorf("%s: got %v, want %v", query, names, want)
			}
		}
		c.Get(suitesPath+"?source_id=7").WantInvalid("source_id", "source_id")
		c.Get(suitesPath+"?verifier_kind=oracle").WantInvalid("", "verifier_kind")
	})
}

func TestPatch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.Org("acme")
		id := c.Create(judged(trigger("a"), trigger("b")))["id"].(string)
		suite := c.Patch(id, object{
			"verifier_kind": "deterministic", "supports_no_skill": true, "resource_limits_json": object{"cpus": 1},
			"cases_json": []object{{"output": "x", "expected": "x"}}, "source_kind": "imported",
		}).Want(http.StatusOK).Field("suite")
		cases := list(t, suite, "cases_json")
		if len(cases) != 1 || cases[0]["case_kind"] != "exact_match" || suite["verifier_kind"] != "deterministic" ||
			suite["supports_no_skill"] != true || suite["source_kind"] != "manual" || suite["runnable"] != true {
			t.Errorf("got %v", suite)
		}
		unchanged := c.Patch(id, object{}).Want(http.StatusOK).Field("suite")
		if diff := cmp.Diff(with(suite, "version", 3.0, "updated_at", unchanged["updated_at"]), unchanged); diff != "" {
			t.Errorf("an empty patch (-want +got):\n%s", diff)
		}
		c.Patch(id, object{"verifier_kind": "llm_judge"}).WantInvalid("exact_match", "cases_json", "0", "case_kind")
		c.Patch(id, object{"cases_json": []object{trigger("a")}}).WantInvalid("trigger_query", "cases_json", "0", "case_kind")
		c.Patch(id, object{"name": " "}).WantInvalid("blank", "name")
		c.Patch(id, object{"name": 7}).WantInvalid("", "name")
		c.Patch(id, object{"name": "late", "if_version": 1}).WantError(http.StatusConflict, "has changed")
		c.Patch(id, object{"name": "in time", "if_version": 3}).Want(http.StatusOK)
		c.Patch(uuid.NewString(), object{"cases_json": []object{{"case_kind": "task_package"}}}).WantInvalid("required",
			"cases_json", "0", "environment_ref")
		c.Patch(uuid.NewString(), object{"name": "x"}).WantError(http.StatusNotFound, "Eval suite not found")
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).Org("acme")
		path := suitesPath + "/" + c.Create(judged(trigger("a")))["id"].(string)
		if a := c.Do(http.MethodDelete, path, nil).Want(http.StatusNoContent); len(a.Body) > 0 {
			t.Errorf("body %q", a.Body)
		}
		c.Get(path).WantError(http.StatusNotFound, "Eval suite not found")
		c.Do(http.MethodDelete, path, nil).WantError(http.StatusNotFound, "Eval suite not found")
	})
}

// TestAccess calls every route of suites with other roles and organisations.
func TestAccess(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c, stranger := w.Org("acme"), w.Org("other")
		path := suitesPath + "/" + c.Create(judged(trigger("a")))["id"].(string)
		viewer, member := w.Member(c.Org, access.Viewer), w.Member(c.Org, access.Member)
		nobody := &client{T: t, W: w, Key: "st_live_nonsense"}
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
				a.WantError(http.StatusForbidden, "write")
			} else {
				a.Want(row.viewer)
			}
			member.Do(row.method, row.path, row.body).Want(row.member)
		}
		viewer.Upload("a.json", []byte(`[]`)).WantError(http.StatusForbidden, "write")
	})
}
