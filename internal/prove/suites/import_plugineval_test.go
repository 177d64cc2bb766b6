package suites_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// pluginCases are two cases of a plugin: one with graders of both kinds, one
// without a judge.
func pluginCases() map[string]string {
	return map[string]string{
		"greeter/.claude-plugin/plugin.json":    `{"name":"greeter","version":"1.0.0"}`,
		"greeter/skills/greeter/SKILL.md":       "---\nname: greeter\ndescription: Greets people.\n---\n",
		"greeter/evals/hello/prompt.md":         "---\nmax_turns: 5\nruns: 1\n---\nSay hello to Alex.\n",
		"greeter/evals/hello/graders/tone.md":   "---\ntype: llm\n---\nIt is friendly.\n",
		"greeter/evals/hello/graders/greets.md": "---\ntype: regex\nflags: i\n---\nhello\n",
		"greeter/evals/file/case.yaml": "schema_version: \"1.0\"\nname: file\nruns: 1\nexecution:\n  prompt: Write x.md\n" +
			"graders:\n  - name: x\n    type: file_exists\n    path: x.md\n",
	}
}

func unzip(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		content, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	return files
}

func TestImportPluginEval(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := runstest.New(t, db).Org("acme")
		files := pluginCases()
		a := c.Import("greeter.zip", zipped(files)).Want(http.StatusCreated)
		suite := a.Field("suite")
		want := apptest.Plain(t, object{
			"name": "greeter", "source_kind": "manual", "verifier_kind": "llm_judge", "supports_no_skill": true, "runnable": true, "case_count": 2,
		}).(object)
		for field, value := range want {
			if suite[field] != value {
				t.Errorf("%s is %v, want %v", field, suite[field], value)
			}
		}
		for _, got := range apptest.List(t, suite, "cases_json") {
			if got["case_kind"] != "llm_rubric" || got["id"] != got["name"] {
				t.Errorf("case %v", got)
			}
		}

		// The same files come back, and make the same suite again.
		path := suitesPath + "/" + suite["id"].(string)
		answer := c.Get(path + "/export?format=plugin-eval").Want(http.StatusOK)
		if kind := answer.Header.Get("Content-Type"); kind != "application/zip" {
			t.Errorf("content type %s", kind)
		}
		exported := unzip(t, answer.Body)
		cases := map[string]string{}
		for name, text := range files {
			if rest, ok := strings.CutPrefix(name, "greeter/evals/"); ok {
				cases["evals/"+rest] = text
			}
		}
		if diff := cmp.Diff(cases, exported); diff != "" {
			t.Errorf("exported (-want +got):\n%s", diff)
		}
		again := c.Import("again.zip", answer.Body).Want(http.StatusCreated).Field("suite")
		if diff := cmp.Diff(suite["cases_json"], again["cases_json"]); diff != "" || again["name"] != "again" {
			t.Errorf("imported again (-want +got):\n%s", diff)
		}

		// Without a judge's grader, the suite needs no judge.
		delete(files, "greeter/evals/hello/graders/tone.md")
		suite = c.Import("greeter.zip", zipped(files), "name", "Plain").Want(http.StatusCreated).Field("suite")
		if suite["verifier_kind"] != "deterministic" || suite["runnable"] != true || suite["name"] != "Plain" {
			t.Errorf("suite %v", suite)
		}
	})
}

// TestImportPluginEvalRefused: one case that would be decided otherwise here refuses
// all, and nothing is stored; unless the caller wants the others.
func TestImportPluginEvalRefused(t *testing.T) {
	t.Parallel()
	c := runstest.New(t, storetest.Open(t, "sqlite")).Org("acme")
	files := pluginCases()
	files["greeter/evals/hello/graders/trace.md"] = "---\ntype: regex\ntarget: trace\n---\nBash\n"
	archive := zipped(files)
	problem := c.Import("greeter.zip", archive).Want(http.StatusBadRequest)
	if !strings.Contains(string(problem.Body), `hello: the grader \"trace\": it reads trace`) {
		t.Errorf("got %s", problem.Body)
	}
	if n := len(c.Get(suitesPath).Want(http.StatusOK).List("suites")); n != 0 {
		t.Errorf("%d suites are stored", n)
	}
	a := c.Import("greeter.zip", archive, "partial", "true").Want(http.StatusCreated)
	if refused := a.List("refused"); len(refused) != 1 || refused[0]["task"] != "hello" || a.Field("suite")["case_count"] != 1.0 {
		t.Errorf("refused %v", refused)
	}
	c.Import("greeter.zip", archive, "partial", "perhaps").Want(http.StatusBadRequest)
	delete(files, "greeter/evals/file/case.yaml")
	c.Import("greeter.zip", zipped(files), "partial", "true").Want(http.StatusBadRequest)

	many := map[string]string{}
	for i := range 501 {
		many[fmt.Sprintf("evals/%d/prompt.md", i)] = "hi"
	}
	c.Import("many.zip", zipped(many)).Want(http.StatusBadRequest)
	c.Import("large.zip", zipped(map[string]string{
		"evals/a/prompt.md": strings.Repeat("0123456789abcdef", 1<<16) + "x",
	})).Want(http.StatusRequestEntityTooLarge)
	c.Import("slip.zip", zipped(map[string]string{"../evals/a/prompt.md": "hi"})).Want(http.StatusBadRequest)
}

// TestExportPluginEval: other cases are written as far as the format goes.
func TestExportPluginEval(t *testing.T) {
	t.Parallel()
	c := runstest.New(t, storetest.Open(t, "sqlite")).Org("acme")
	suite := c.Create(judged(object{
		"case_kind": "llm_rubric", "name": "Tables", "prompt": "List the tables.", "expectations": []string{"It has two.", "It is short."},
	}))
	files := unzip(t, c.Get(suitesPath+"/"+suite["id"].(string)+"/export?format=plugin-eval").Want(http.StatusOK).Body)
	want := `schema_version: "1.1"
name: Tables
execution:
  prompt: List the tables.
  max_turns: 50
  timeout_seconds: 900
graders:
  - name: expectation-1
    type: llm
    criteria: It has two.
  - name: expectation-2
    type: llm
    criteria: It is short.
`
	if diff := cmp.Diff(map[string]string{"evals/tables/case.yaml": want}, files); diff != "" {
		t.Errorf("exported (-want +got):\n%s", diff)
	}
	suite = c.Create(judged(trigger("a")))
	problem := c.Get(suitesPath + "/" + suite["id"].(string) + "/export?format=plugin-eval").Want(http.StatusConflict)
	if !strings.Contains(string(problem.Body), "The format plugin-eval holds only cases with a prompt") {
		t.Errorf("got %s", problem.Body)
	}
}
