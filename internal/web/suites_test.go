package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// suiteForm is the form of a suite with these queries.
func suiteForm(name string, queries ...string) url.Values {
	form := url.Values{"name": {name}, "verifier": {"llm_judge"}, "as": {"form"}, "version": {"1"}}
	for _, q := range queries {
		form.Add("n", "")
		form.Add("query", strings.TrimPrefix(q, "!"))
		expectation := "should_trigger"
		if strings.HasPrefix(q, "!") {
			expectation = "should_not_trigger"
		}
		form.Add("expectation", expectation)
	}
	return form
}

// newSuite makes a suite by its form and returns the path of its page.
func (b *browser) newSuite(name string, queries ...string) string {
	b.w.T.Helper()
	return b.post("/suites/new", suiteForm(name, queries...)).want(http.StatusSeeOther).Header.Get("Location")
}

// cases are those of a suite, as the API has them.
func (b *browser) cases(path string) []object {
	b.w.T.Helper()
	suite := b.api.Get("/api/v1/eval-suites/" + id(path)).Want(http.StatusOK).Object()["suite"].(object)
	return apptest.List(b.w.T, suite, "cases_json")
}

func TestSuites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	checkPage(t, b.get("/suites").want(http.StatusOK).wantText("No suites yet", "New suite"))
	checkPage(t, b.get("/suites/new").want(http.StatusOK))
	path := b.newSuite("triggers", "extract the tables", "", "!tell me the weather")
	p := b.get(path).want(http.StatusOK).wantText("The suite was created.", "2 cases", "No runs yet", "Start run")
	checkPage(t, p)
	before := b.cases(path)
	if len(before) != 2 || before[1]["expectation"] != "should_not_trigger" {
		t.Fatalf("the suite has %v", before)
	}
	b.get("/suites").wantText("triggers", "2", "never")

	before[0]["weight"], before[0]["note"] = 3.0, "of the author"
	raw, err := json.Marshal(append(before, object{"case_kind": "llm_rubric", "output": "x", "rubric": "is it good?"}))
	if err != nil {
		t.Fatal(err)
	}
	b.post(path, url.Values{"name": {"all"}, "verifier": {"llm_judge"}, "as": {"json"}, "version": {"1"}, "cases": {string(raw)}}).
		wantLocation(path + "?as=json")
	checkPage(t, b.get(path+"?as=json").want(http.StatusOK).wantText("The suite was saved.", "of the author"))

	// The form changes what it shows, and keeps the rest.
	form := suiteForm("all", "one more")
	form["n"], form["version"] = []string{"0", "1", ""}, []string{"2"}
	form["query"], form["expectation"] = []string{"extract all tables", " ", "one more"}, []string{"should_trigger", "should_trigger", "should_trigger"}
	b.get(path).wantText("1 case is of another kind", "is it good?", "judged answer")
	b.post(path, form).wantLocation(path)
	after := b.cases(path)
	var got []any
	for _, c := range after {
		got = append(got, c["query"], c["note"], c["case_kind"])
	}
	want := []any{"extract all tables", "of the author", "trigger_query", nil, nil, "llm_rubric", "one more", nil, "trigger_query"}
	if diff := cmp.Diff(want, got); diff != "" || after[0]["id"] != before[0]["id"] {
		t.Errorf("the cases (- want, + got):\n%s", diff)
	}
	b.post(path, form).want(http.StatusConflict).wantText("The suite has changed")
	b.post(path+"/delete", nil).wantLocation("/suites")
	b.get("/suites").wantText("The suite and its runs were deleted.")
	b.get(path).want(http.StatusNotFound)
}

// TestSuiteProblems: problems are shown at their lines.
func TestSuiteProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	for _, c := range []struct {
		name, text string
		want       []string
		marked     string
	}{
		{"syntax", "[\r\n  {\"query\": \"a\",,\r\n}]", []string{"line 2", "not a JSON array of objects"}, `2 {"query": "a",,`},
		{"type", "[\n\n\"a\"]", []string{"line 3", "found a string"}, `3 "a"]`},
		{"kind", "[\n{\"query\": \"a\", \"expectation\": \"should_trigger\"},\n{\n\"case_kind\":\n\"exact_match\"}]", []string{"line 4 , case 2", "not \"exact_match\""}, `4 "case_kind":`},
		{"nothing", "[]", []string{"at least one case"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			form := url.Values{"name": {"mine"}, "verifier": {"llm_judge"}, "as": {"json"}, "cases": {c.text}}
			p := b.post("/suites/new", form).want(http.StatusBadRequest).wantText(c.want...)
			checkPage(t, p)
			if got := strings.Join(p.texts("tr.marked"), "|"); got != c.marked {
				t.Errorf("the line %q is marked, want %q", got, c.marked)
			}
			if got := p.texts("textarea#cases-json")[0]; got != strings.Join(strings.Fields(c.text), " ") {
				t.Errorf("the form came back with %q", got)
			}
		})
	}
	b.post("/suites/new", suiteForm("", "a")).want(http.StatusBadRequest).wantText("name")
	b.post("/suites/new", suiteForm("mine")).want(http.StatusBadRequest).wantText("at least one case")
	form := suiteForm("mine", "a")
	form.Set("verifier", "me")
	b.post("/suites/new", form).want(http.StatusBadRequest).wantText("verifier must be")

	form = url.Values{"name": {"mine"}, "verifier": {"llm_judge"}, "as": {"json"}, "cases": {"[{\"query\": \"a\"}]"}}
	path := b.post("/suites/new", form).want(http.StatusSeeOther).Header.Get("Location")
	b.get(path).wantText("not runnable", "case 1: expectation must be should_trigger or should_not_trigger")
	b.get(path + "?as=json").wantText("line 2 , case 1: expectation must be")
	b.post(path+"/runs", url.Values{"subject": {"source:x"}}).want(http.StatusConflict)
}

func TestSuiteAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, viewer, other := w.as(access.Member), w.as(access.Viewer), w.otherOrg(access.Team)
	path := b.newSuite(payload, payload)
	source := b.upload(payload, map[string]string{"SKILL.md": sourceText})
	for _, page := range []string{"/suites", path, path + "?as=json"} {
		viewer.get(page).want(http.StatusOK).wantForms().wantInert()
		b.get(page).want(http.StatusOK).wantInert()
	}
	viewer.get("/suites/new").want(http.StatusForbidden)
	other.get("/suites").wantText("No suites yet")
	other.get(path).want(http.StatusNotFound)
	form := suiteForm("mine", "a")
	for _, page := range []string{"/suites/new", path, path + "/delete", path + "/runs"} {
		viewer.post(page, form).want(http.StatusForbidden)
		b.do("POST", page, form, http.Header{"Sec-Fetch-Site": {"cross-site"}}).want(http.StatusForbidden)
	}
	for _, page := range []string{path, path + "/delete"} {
		other.post(page, form).want(http.StatusNotFound)
	}
	theirs := other.newSuite("theirs", "a")
	other.post(theirs+"/runs", url.Values{"subject": {"source:" + id(source)}}).want(http.StatusForbidden)
	form.Set("source", id(source))
	other.post("/suites/new", form).mustNotBe(http.StatusSeeOther)
}

// TestSuiteFiles takes a suite out and in again.
func TestSuiteFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, viewer := w.as(access.Member), w.as(access.Viewer)
	path := b.newSuite("triggers", "extract the tables", "!tell me the weather")
	file := viewer.get(path + "/export?format=suite").want(http.StatusOK)
	if got := file.Header.Get("Content-Disposition"); got != `attachment; filename="`+id(path)+`.json"` {
		t.Errorf("it is sent as %q", got)
	}
	viewer.get(path + "/export?format=trigger").want(http.StatusOK)
	viewer.get(path + "/export?format=evals.json").want(http.StatusConflict).wantText("The format evals.json holds only")
	viewer.get(path + "/export?format=x").want(http.StatusBadRequest)

	fields, files := map[string]string{"name": "again"}, map[string]string{"file": file.body}
	made := b.send("/suites/import", fields, files).want(http.StatusSeeOther).Header.Get("Location")
	b.get(made).want(http.StatusOK).wantText("The suite was imported.", "again", "2 cases")
	source := b.upload("pdf", map[string]string{"pdf/SKILL.md": sourceText})
	fields["source"] = id(source)
	b.send("/suites/import", fields, files).want(http.StatusSeeOther)
	b.get(source).wantText("again")

	b.send("/suites/import", fields, nil).want(http.StatusBadRequest).wantText("Choose a file")
	refused := b.send("/suites/import", fields, map[string]string{"file": payload}).want(http.StatusBadRequest).wantInert()
	if got := attr(refused.all("input#name")[0], "value"); got != "again" {
		t.Errorf("the name comes back as %q", got)
	}
	viewer.send("/suites/import", fields, files).want(http.StatusForbidden)
	viewer.get("/suites").want(http.StatusOK).wantForms()
	w.otherOrg(access.Team).get(path + "/export?format=suite").want(http.StatusNotFound)
}

// resultFile is the result of a run of another tool.
const resultFile = `{"schemaVersion":1,"claudeVersion":"2.1.325","startedAt":"2026-11-02T10:00:00Z","costUsd":0.42,
	"suite":{"threshold":1,"judgeModel":"haiku","plugins":[{"name":"<script>greeter"}]},
	"cases":[{"name":"hello","promptMarkdown":"hi","graders":[{"name":"tone","type":"llm","weight":1,"config":{"criteria":"c"}}],
		"arms":{"with":[{"score":0,"passed":false,"turns":2,"costUsd":0.2,"graders":[
			{"name":"tone","passed":false,"weight":1,"explanation":"judge votes: FAIL FAIL <script>","evidence":"No."}]}]}}]}`

// TestImportedRun shows a run that was made elsewhere, marked as such.
func TestImportedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, viewer := w.as(access.Member), w.as(access.Viewer)
	suite := b.newSuite("triggers", "extract the tables")
	file := map[string]string{"file": resultFile}
	path := b.send(suite+"/runs/import", nil, file).want(http.StatusSeeOther).Header.Get("Location")
	b.get(path).want(http.StatusOK).wantInert().wantText("The run was imported.", "imported", "claude plugin eval 2.1.325", "it counts in no gate",
		"0 of 1 case at the threshold", "graded by haiku", "1 of 1 graders failed: tone: judge votes: FAIL FAIL", "2 turns")
	b.get(suite).want(http.StatusOK).wantText("imported")
	viewer.get("/suites").want(http.StatusOK).wantText("imported")
	if again := b.send(suite+"/runs/import", nil, file).want(http.StatusSeeOther).Header.Get("Location"); again != path {
		t.Errorf("the same file is another run: %s and %s", path, again)
	}
	b.send(suite+"/runs/import", nil, nil).want(http.StatusBadRequest).wantText("Choose a file")
	b.send(suite+"/runs/import", nil, map[string]string{"file": "{}"}).want(http.StatusBadRequest).wantText("no aggregate-result.json")
	viewer.send(suite+"/runs/import", nil, file).want(http.StatusForbidden)
	other := w.otherOrg(access.Team)
	other.send(suite+"/runs/import", nil, file).want(http.StatusNotFound)
	other.get(path).want(http.StatusNotFound)
}

// TestCases: every kind of case can be read as a list, and changed by its form.
func TestCases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	checkPage(t, b.get("/suites/new?verifier=deterministic").want(http.StatusOK).wantText("exact_match", "$SKILL_DIR"))
	checks := `[{"case_kind":"exact_match","command":["echo","a b"],"expected":"a b\n","note":"kept"},
		{"case_kind":"json_schema","output":"{}","schema":{"type":"object"}},
		{"case_kind":"boolean_assertion","output":"x","assertion":"contains:x","weight":2,"tags":["small"]}]`
	path := b.post("/suites/new", url.Values{"name": {"checks"}, "verifier": {"deterministic"}, "as": {"json"}, "cases": {checks}}).
		want(http.StatusSeeOther).Header.Get("Location")
	p := b.get(path).wantText("$ echo 'a b'", "exact output", "Given output: {}", `JSON that fits {"type":"object"}`, "contains:x", "assertion", "small")
	checkPage(t, p)
	w.as(access.Viewer).get(path).wantText("$ echo 'a b'", "exact output")
	w.as(access.Viewer).get(path + "/cases/0").want(http.StatusForbidden)

	// What a form shows and is sent back unchanged stays as it was.
	before := b.cases(path)
	for n := range before {
		edit := b.get(path + "/cases/" + strconv.Itoa(n)).want(http.StatusOK)
		checkPage(t, edit)
		b.post(path+"/cases/"+strconv.Itoa(n), edit.formValues("form.case-form")).wantLocation(path)
	}
	if diff := cmp.Diff(before, b.cases(path)); diff != "" {
		t.Errorf("saved without a change (- before, + after):\n%s", diff)
	}

	if !strings.Contains(b.get(path+"/cases/0").body, "Delete this case? This cannot be undone.") {
		t.Error("a case is deleted unasked")
	}
	form := b.get(path + "/cases/0").formValues("form.case-form")
	form.Set("asked", "sh\r\n-c\r\necho hello")
	form.Set("expected", "hello")
	form["normalize"] = []string{"trim"}
	b.post(path+"/cases/0", form).wantLocation(path)
	if c := b.cases(path)[0]; c["expected"] != "hello" || len(c["command"].([]any)) != 3 || c["note"] != "kept" || c["id"] != before[0]["id"] {
		t.Errorf("the case is %v", c)
	}
	b.post(path+"/cases/0", form).want(http.StatusConflict).wantText("The suite has changed")

	form = b.get(path + "/cases/new?kind=json_schema").want(http.StatusOK).formValues("form.case-form")
	form.Set("asked", "x")
	form.Set("expected", "{")
	checkPage(t, b.post(path+"/cases/new", form).want(http.StatusBadRequest).wantText("not valid JSON"))
	form.Set("expected", "true")
	form.Set("weight", "-1")
	b.post(path+"/cases/new", form).want(http.StatusBadRequest).wantText("The weight must be a number above 0")
	form.Set("weight", "")
	b.post(path+"/cases/new", form).wantLocation(path)
	b.get(path).wantText("4 cases")

	for _, missing := range []string{"4", "-1", "x", "new?kind=task_package"} {
		b.get(path + "/cases/" + missing).want(http.StatusNotFound)
	}
	w.otherOrg(access.Team).get(path + "/cases/0").want(http.StatusNotFound)
	for range 3 {
		form = b.get(path + "/cases/0").formValues("form.case-form")
		form.Set("do", "delete")
		b.post(path+"/cases/0", form).wantLocation(path)
	}
	form = b.get(path + "/cases/0").formValues("form.case-form")
	form.Set("do", "delete")
	b.post(path+"/cases/0", form).want(http.StatusConflict).wantText("at least one case")
}

// formValues are the fields of the form that a selector finds, as a browser sends them.
func (p *page) formValues(selector string) url.Values {
	values := url.Values{}
	has := func(n *html.Node, name string) bool {
		return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	}
	for n := range p.all(selector)[0].Descendants() {
		name := attr(n, "name")
		switch {
		case n.Data == "input" && (attr(n, "type") != "checkbox" || has(n, "checked")):
			values.Add(name, attr(n, "value"))
		case n.Data == "textarea" && n.FirstChild != nil:
			values.Set(name, strings.ReplaceAll(n.FirstChild.Data, "\n", "\r\n"))
		case n.Data == "option":
			of := n.Parent
			if of.Data == "optgroup" {
				of = of.Parent
			}
			if chosen := attr(of, "name"); !values.Has(chosen) || has(n, "selected") {
				values.Set(chosen, attr(n, "value"))
			}
		}
	}
	return values
}
