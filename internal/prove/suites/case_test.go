package suites_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// paths are where the issues of a suite stand, joined by dots.
func paths(t *testing.T, suite object) []string {
	t.Helper()
	all := []string{}
	for _, issue := range apptest.List(t, suite, "runnability_issues") {
		if issue["message"] == "" {
			t.Errorf("an issue without a message: %v", issue)
		}
		var path []string
		for _, element := range issue["path"].([]any) {
			path = append(path, element.(string))
		}
		all = append(all, strings.Join(path, "."))
	}
	return all
}

// TestLabel: a case is called by its name, or by what it asks, in one line.
func TestLabel(t *testing.T) {
	t.Parallel()
	prompt := "Fill in\n\tform.pdf"
	for want, c := range map[string]suites.Case{
		"Forms":                       {ID: "id", Name: "Forms", Query: "a query"},
		"a query":                     {ID: "id", Query: "a query"},
		"Fill in form.pdf":            {ID: "id", Subject: suites.Subject{Prompt: &prompt}},
		"make test":                   {ID: "id", Subject: suites.Subject{Command: []string{"make", "test"}}},
		"id":                          {ID: "id"},
		strings.Repeat("ä", 99) + "…": {ID: "id", Query: strings.Repeat("ä", 101)},
		"red":                         {ID: "id", Query: "\x1bred"},
	} {
		if got := c.Label(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestIncomplete has a row for every reason that keeps a stored suite from
// being run, and shows that its cases are kept as they came.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	rubric := object{"case_kind": "llm_rubric", "prompt": "a", "rubric": "b"}
	exact := object{"case_kind": "exact_match", "output": "a", "expected": "b"}
	pkg := object{"case_kind": "task_package", "environment_ref": "https://example.org/env.tar.gz"}
	rows := []struct {
		name  string
		body  object
		paths []string // of the issues
	}{
		{"nothing", judged(object{}), []string{"cases_json.0.case_kind"}},
		{"trigger without query", judged(trigger("a"), without(trigger("a"), "query")), []string{"cases_json.1.query"}},
		{"blank query", judged(trigger(" ")), []string{"cases_json.0.query"}},
		{"query of another type", judged(with(trigger("a"), object{"query": 7})), []string{"cases_json.0.query"}},
		{"trigger without expectation", judged(object{"query": "a"}), []string{"cases_json.0.expectation"}},
		{"unknown expectation", judged(with(trigger("a"), object{"expectation": "maybe"})), []string{"cases_json.0.expectation"}},
		{"rubric without criteria", judged(without(rubric, "rubric")), []string{"cases_json.0.expectations"}},
		{"rubric without subject", judged(without(rubric, "prompt")), []string{"cases_json.0"}},
		{"two subjects", judged(with(rubric, object{"output": "a"})), []string{"cases_json.0"}},
		{"blank expectation", judged(with(rubric, object{"expectations": []string{"a", " "}})), []string{"cases_json.0.expectations"}},
		{"threshold above 1", judged(with(rubric, object{"threshold": 1.5})), []string{"cases_json.0.threshold"}},
		{"threshold 0", judged(with(rubric, object{"threshold": 0})), []string{"cases_json.0.threshold"}},
		{"command a string", judged(with(without(rubric, "prompt"), object{"command": "ls"})), []string{"cases_json.0.command", "cases_json.0.command"}},
		{"command empty", judged(with(without(rubric, "prompt"), object{"command": []string{}})), []string{"cases_json.0.command"}},
		{"match without expected", deterministic(without(exact, "expected")), []string{"cases_json.0.expected"}},
		{"expected of another type", deterministic(with(exact, object{"expected": 7})), []string{"cases_json.0.expected"}},
		{"unknown normalisation", deterministic(with(exact, object{"normalize": []string{"trim", "rot13"}})), []string{"cases_json.0.normalize"}},
		{"schema missing", deterministic(object{"case_kind": "json_schema", "output": "1"}), []string{"cases_json.0.schema"}},
		{"schema a number", deterministic(object{"output": "1", "schema": 7}), []string{"cases_json.0.schema"}},
		{"schema with a huge number", deterministic(object{"output": "1", "schema": object{"minimum": json.Number("1e-9999999")}}), []string{"cases_json.0.schema"}},
		{"schema too large", deterministic(object{"output": "1", "schema": object{"title": strings.Repeat("x", 128<<10)}}), []string{"cases_json.0.schema"}},
		{"too many normalizations", deterministic(with(exact, object{"normalize": slices.Repeat([]string{"trim"}, 11)})), []string{"cases_json.0.normalize"}},
		{"assertion missing", deterministic(object{"case_kind": "boolean_assertion", "output": "1"}), []string{"cases_json.0.assertion"}},
		{"assertion an object", deterministic(object{"output": "1", "assertion": object{"type": "contains"}}), []string{"cases_json.0.assertion"}},
		{"verifier outside the archive", deterministic(with(pkg, object{"verifier_ref": "../x"})), []string{"cases_json.0.verifier_ref"}},
		{"absolute oracle", deterministic(with(pkg, object{"oracle_ref": "/x"})), []string{"cases_json.0.oracle_ref"}},
		{"hints of another type", deterministic(with(pkg, object{"resource_hints": 7})), []string{"cases_json.0.resource_hints"}},
		{
			"bad hints", deterministic(with(pkg, object{"resource_hints": object{"working_dir": "..", "timeout_ms": -1, "env": 7}})),
			[]string{"cases_json.0.resource_hints.working_dir", "cases_json.0.resource_hints.timeout_ms"},
		},
		{"foreign storage", deterministic(with(pkg, object{"environment_ref": "gs://bucket/key"})), []string{"cases_json.0.environment_ref"}},
		{"weight 0", judged(with(trigger("a"), object{"weight": 0})), []string{"cases_json.0.weight"}},
		{"tags a string", judged(with(trigger("a"), object{"tags": "a"})), []string{"cases_json.0.tags"}},
		{"id an object", judged(with(trigger("a"), object{"id": object{}})), []string{"cases_json.0.id"}},
		{"an id twice", judged(with(trigger("a"), object{"id": "1"}), with(trigger("b"), object{"id": 1})), []string{"cases_json.1.id"}},
		{"structured rubric", with(judged(object{"case_kind": "own", "anything": 1}), object{"verifier_kind": "structured_rubric"}), []string{"verifier_kind"}},
		{"imported", with(judged(trigger("a")), object{"source_kind": "imported"}), []string{"source_kind"}},
		{"imported and mixed", with(deterministic(pkg, exact), object{"source_kind": "imported"}), []string{"source_kind"}},
		{"contributor aggregate", with(judged(trigger("a")), object{"source_kind": "contributor_aggregate"}), []string{"source_kind"}},
		{"exemplars", with(judged(trigger("a")), object{"source_kind": "org_exemplars"}), []string{"source_kind"}},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				suite := c.In(t).Create(row.body)
				if got := paths(t, suite); !slices.Equal(got, row.paths) || suite["runnable"] != false {
					t.Errorf("runnable %v, issues at %v, want %v", suite["runnable"], got, row.paths)
				}
				wantKept(t, row.body["cases_json"].([]object), suite)
			})
		}
	})
}

// wantKept checks that each case came back with nothing but id and kind added.
func wantKept(t *testing.T, sent []object, suite object) {
	t.Helper()
	for i, got := range apptest.List(t, suite, "cases_json") {
		want := apptest.Plain(t, sent[i]).(object)
		for _, field := range []string{"id", "case_kind"} {
			if _, ok := want[field]; !ok {
				delete(got, field)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("case %d (-sent +got):\n%s", i, diff)
		}
	}
}

// TestRunnable has a row for every form of a whole case, and for every
// inference of its kind.
func TestRunnable(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, kind string
		body       object
		suiteKind  string
	}{
		{"trigger", "trigger_query", judged(trigger("a")), "cases"},
		{"negative trigger", "trigger_query", judged(object{"query": "a", "expectation": "should_not_trigger", "invocation_type": "explicit"}), "cases"},
		{"rubric", "llm_rubric", judged(object{"prompt": "a", "rubric": "b", "threshold": 0.5}), "cases"},
		{"expectations of an input", "llm_rubric", judged(object{"input": "a", "expectations": []string{"b"}}), "cases"},
		{"expectations of a query", "llm_rubric", judged(object{"query": "a", "expectations": []string{"b"}, "expected": "c"}), "cases"},
		{"rubric of a command", "llm_rubric", judged(object{"command": []string{"ls"}, "rubric": "b"}), "cases"},
		{"match", "exact_match", deterministic(object{"query": "a", "expected": "b", "normalize": []string{"trim", "case", "whitespace", "newline"}}), "cases"},
		{"empty match", "exact_match", deterministic(object{"output": "", "expected": ""}), "cases"},
		{"schema", "json_schema", deterministic(object{"output": object{"a": 1}, "schema": object{"type": "object"}}), "cases"},
		{"schema true", "json_schema", deterministic(object{"output": "1", "schema": true}), "cases"},
		{"assertion", "boolean_assertion", deterministic(object{"command": []string{"ls"}, "assertion": "exit_code == 0"}), "cases"},
		{"package", "task_package", deterministic(object{"environment_ref": "s3://bucket/env.tar.gz", "resource_hints": object{"working_dir": "app", "timeout_ms": 60000, "env": object{"A": "b"}}}), "task_package"},
		{"imported package", "task_package", with(deterministic(object{"environment_ref": "https://example.org"}), object{"source_kind": "imported"}), "task_package"},
		{"mixed", "task_package", deterministic(object{"environment_ref": "s3://b/k"}, object{"output": "a", "expected": "a"}), "cases"},
		{"ids of both types", "trigger_query", judged(with(trigger("a"), object{"id": 1}), with(trigger("a"), object{"id": "one"})), "cases"},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				suite := c.In(t).Create(row.body)
				if suite["runnable"] != true || suite["suite_kind"] != row.suiteKind {
					t.Errorf("runnable %v, suite_kind %v: %v", suite["runnable"], suite["suite_kind"], suite["runnability_issues"])
				}
				if kind := apptest.List(t, suite, "cases_json")[0]["case_kind"]; kind != row.kind {
					t.Errorf("case_kind %v, want %s", kind, row.kind)
				}
				wantKept(t, row.body["cases_json"].([]object), suite)
			})
		}
	})
}

// TestCaseIDs checks that ids are stable: those given, and those made when the same
// cases are sent again.
func TestCaseIDs(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		ids := func(suite object) []any {
			all := []any{}
			for _, o := range apptest.List(t, suite, "cases_json") {
				all = append(all, o["id"])
			}
			return all
		}
		first := c.Create(judged(trigger("a"), with(trigger("b"), object{"id": "mine"}), trigger("a"), without(trigger("a"), "id")))
		made := ids(first)
		id := made[0].(string)
		if diff := cmp.Diff([]any{id, "mine", id + "-2", id + "-3"}, made); diff != "" || len(id) != 12 {
			t.Errorf("ids (-want +got):\n%s", diff)
		}
		again := c.Patch(first["id"].(string), object{"cases_json": []object{trigger("new"), trigger("a")}}).Field("suite")
		if got := ids(again); got[1] != made[0] || got[0] == got[1] {
			t.Errorf("after a patch the ids are %v, were %v", got, made)
		}
		taken := c.Create(judged(trigger("a"), with(trigger("b"), object{"id": id})))
		if got := ids(taken); got[0] != id+"-2" || got[1] != id {
			t.Errorf("ids %v", got)
		}
	})
}

// TestOddText: what PostgreSQL refuses is replaced.
func TestOddText(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		suite := c.Post(suitesPath, `{"name":"n","source_kind":"manual","verifier_kind":"llm_judge","cases_json":[
			{"query":"a\u0000b \\u0000 \ud800 `+"\xff"+`","expectation":"should_trigger","big":12345678901234567890.10,"case_kind":null,"id":null}]}`).Want(201).Field("suite")
		got := apptest.List(t, suite, "cases_json")[0]
		if got["query"] != "a\ufffdb \\u0000 \ufffd \ufffd" || got["case_kind"] != "trigger_query" || got["id"] == nil {
			t.Errorf("got %q", got)
		}
		if a := c.Get(suitesPath + "/" + suite["id"].(string)); !strings.Contains(string(a.Body), `"big":12345678901234567890.10`) {
			t.Errorf("the number was changed: %s", a.Body)
		}
		c.Import("x.json", []byte(`{"skill_name":"a\u0000\ud800`+"\xff"+`","evals":[{"prompt":"a\u0000","expectations":["`+"\xff"+`"]}]}`)).Want(201)
	})
}
