package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// goodText is a skill without faults.
const goodText = "---\nname: pdf\ndescription: Extracts tables from PDF files. Use it when a person asks for the content of a PDF.\n---\n# PDF\n\nRead the file.\n"

// run starts a run of a suite on a source, waits for its end and returns the
// path of its page.
func (b *browser) run(suite, source string, fields url.Values) string {
	b.w.T.Helper()
	form := url.Values{"subject": {"source:" + id(source)}}
	for name, values := range fields {
		form[name] = values
	}
	path := b.post(suite+"/runs", form).want(http.StatusSeeOther).Header.Get("Location")
	b.eventually(path, "succeeded")
	return path
}

func TestRun(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Member)
		source := b.upload("pdf", map[string]string{"SKILL.md": goodText})
		suite := b.newSuite("triggers", "extract tables from a pdf", "!bake a cake", "bake bread")
		path := b.run(suite, source, url.Values{"trials": {"2"}})
		p := b.get(path).want(http.StatusOK).
			wantText("67", "Passed every time", "pass^2", "2 of 3", "1 failed", "with the skill, trial 2", "builtin", "bake bread", "All 3", "Failed 1", "succeeded: ■ 1 failed")
		checkPage(t, p)
		if got := p.texts("h1")[0]; !strings.HasSuffix(got, ": 67 % of 3") || !strings.HasPrefix(got, "pdf") {
			t.Errorf("the title is %q", got)
		}
		if got := p.texts("details.case")[0]; !strings.Contains(got, "bake bread") {
			t.Errorf("the first case is %s, want the one that failed", got)
		}
		p = b.get(path + "?show=failed").want(http.StatusOK).wantText("bake bread").wantNoText("bake a cake")
		if got := len(p.all("details.case")); got != 1 {
			t.Errorf("%d cases failed, want 1", got)
		}
		// From what failed it is one click to the case.
		if got := p.href("Edit the case"); got != suite+"/cases/2" {
			t.Errorf("the failed case is edited at %s", got)
		}
		p.wantNoText("Improve the skill") // the suite has too few cases
		w.as(access.Viewer).get(path+"?show=failed").wantNoText("Edit the case", "Run again")
		only := b.cases(suite)[1]["id"].(string)
		b.get(path+"?case="+only).want(http.StatusOK).wantText("bake a cake", "Asked", "Expected The skill does not trigger", "Show all", "2 of 3").wantNoText("bake bread")
		b.get(path + "?case=none").want(http.StatusNotFound)
		b.get("/suites").wantText("67")
		b.get(suite).wantText("succeeded", "67")
		b.post(path+"/cancel", nil).want(http.StatusConflict)

		stream := b.get(path + "/events").want(http.StatusOK)
		if got := stream.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("events come as %s", got)
		}
		for _, want := range []string{"event: status", "event: case", `"status":"succeeded"`} {
			if !strings.Contains(stream.body, want) {
				t.Errorf("no %s in the events", want)
			}
		}
		// The same run again needs no form, nor does the first of the suite's skill.
		again := p.formValues("form#again")
		if want := (url.Values{"subject": {"source:" + id(source)}, "trials": {"2"}, "baseline": {"none"}, "agent": {""}, "max_cost_usd": {""}}); !cmp.Equal(again, want) {
			t.Errorf("it is run again with %v, want %v", again, want)
		}
		b.get(suite).wantText(": 67 % of 3").wantNoText("Over time")
		b.eventually(b.post(suite+"/runs", again).want(http.StatusSeeOther).Header.Get("Location"), "succeeded")
		checkPage(t, b.get(suite).wantText("Over time", "Show as a table"))
		if got := b.get(suite).formValues("form.run-form").Get("subject"); got != "source:"+id(source) {
			t.Errorf("the form of a run begins with %q, want what the last run tried", got)
		}
	})
}

// TestRunErrors shows errors wherever a rate is that they are left out of, and
// marks runs with too many.
func TestRunErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	source := b.upload("pdf", map[string]string{"SKILL.md": goodText})
	good := func(output string) object {
		return object{"case_kind": "exact_match", "output": output, "expected": output}
	}
	broken := object{"case_kind": "boolean_assertion", "output": "a", "assertion": "exit_code == 0"}
	newSuite := func(name string, cases ...object) string {
		made := b.api.Post("/api/v1/eval-suites", object{
			"name": name, "source_kind": "manual", "verifier_kind": "deterministic", "cases_json": cases,
		}).Want(http.StatusCreated)
		return "/suites/" + apptest.Text(made.Object(), "suite", "id")
	}
	few := newSuite("few", good("a"), good("b"), good("c"), good("d"), broken)
	path := b.run(few, source, nil)
	for _, page := range []string{path, few, "/suites"} {
		b.get(page).want(http.StatusOK).wantText("100", "1 error").wantNoText("unreliable")
	}
	many := newSuite("many", good("a"), broken)
	path = b.run(many, source, nil)
	for _, page := range []string{path, many, "/suites", path + "/compare?with=" + id(b.run(many, source, nil))} {
		b.get(page).want(http.StatusOK).wantText("1 error", "unreliable")
	}
	checkPage(t, b.get(path).wantText("The score is not reliable", "1 of 2 trials ended with an error"))
}

func TestRunForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Owner)
	source := b.upload("pdf", map[string]string{"SKILL.md": goodText})
	entry := b.push("reader", "1.0.0", map[string]string{"SKILL.md": skillText("reader", "Reads a book aloud", "Hello")})
	suite := b.newSuite("triggers", "read a book")
	b.get(suite).wantText("pdf", "reader 1.0.0")
	for _, c := range []struct {
		fields url.Values
		status int
		want   string
	}{
		{url.Values{}, 400, "Choose a skill to test"},
		{url.Values{"subject": {"source:" + id(source)}, "trials": {"31"}}, 400, "Trials must be 1 to 30"},
		{url.Values{"subject": {"source:" + id(source)}, "trials": {"x"}}, 400, "Trials must be 1 to 30"},
		{url.Values{"subject": {"source:" + id(source)}, "baseline": {"x"}}, 400, "Baseline must be"},
		{url.Values{"subject": {"source:" + id(source)}, "baseline": {"previous"}}, 409, "no version before"},
		{url.Values{"subject": {"source:" + id(source)}, "max_cost_usd": {"much"}}, 400, "must be dollars"},
		{url.Values{"subject": {"source:" + id(source)}, "agent": {"clippy m"}}, 400, "Agent name must be one of claude-code, codex"},
		{url.Values{"subject": {"entry:0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70"}}, 404, "not found"},
	} {
		b.post(suite+"/runs", c.fields).want(c.status).wantText(c.want, "Start run")
	}
	path := b.run(suite, source, url.Values{"subject": {"entry:" + entry}, "max_cost_usd": {"1.50"}})
	b.get(path).wantText("May cost $1.50")
	b.get(path).wantText("reader 1.0.0", "100")
	b.push("reader", "2.0.0", map[string]string{"SKILL.md": skillText("reader", "Bakes a cake", "Hello")})
	path = b.run(suite, source, url.Values{"subject": {"entry:" + entry}, "baseline": {"previous"}})
	b.get(path).wantText("Compared with the previous version", "points (95 %), p = 1", "baseline 100", "with the previous version", "gain")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	source := b.upload("pdf", map[string]string{"SKILL.md": goodText})
	suite := b.newSuite("triggers", "extract tables from a pdf", "knit me a woollen jumper", "!unrelated words here", payload)
	first := b.run(suite, source, nil)
	b.get(first).wantInert()
	b.send(source+"/upload", nil, map[string]string{"SKILL.md": "---\nname: wool\ndescription: Knit a woollen jumper from a pattern.\n---\nKnit.\n"}).want(http.StatusSeeOther)
	second := b.run(suite, source, nil)
	b.get(suite + "/compare").wantLocation(suite)
	path := b.get(suite + "/compare?run=" + id(second) + "&with=" + id(first)).want(http.StatusSeeOther).Header.Get("Location")
	p := b.get(path).want(http.StatusOK).wantInert().wantText("Fixed 1", "Broken 1", "p 1.000", "could be chance")
	checkPage(t, p)
	rows := p.texts("tr")[1:]
	if diff := cmp.Diff([]string{"extract tables from a pdf ● pass ■ fail ■ broken", "knit me a woollen jumper ■ fail ● pass ● fixed"}, rows[:2]); diff != "" || len(rows) != 4 {
		t.Errorf("what changed, first (- want, + got):\n%s", diff)
	}
	if got := len(b.get(path + "&show=changed").all("tr")); got != 3 {
		t.Errorf("%d rows, want the head and two cases that changed", got)
	}
	// The earlier run is the one before, however they are given.
	b.get(first + "/compare?with=" + id(second)).want(http.StatusOK).wantText("extract tables from a pdf ● pass ■ fail")

	viewer, other := w.as(access.Viewer), w.otherOrg(access.Team)
	viewer.get(path).want(http.StatusOK).wantForms()
	viewer.get(second).want(http.StatusOK).wantForms()
	viewer.post(second+"/cancel", nil).want(http.StatusForbidden)
	b.do("POST", second+"/cancel", nil, http.Header{"Sec-Fetch-Site": {"cross-site"}}).want(http.StatusForbidden)
	for _, page := range []string{path, second, second + "/events"} {
		other.get(page).want(http.StatusNotFound)
	}
	other.post(second+"/cancel", nil).want(http.StatusNotFound)
	b.get(first + "/compare").want(http.StatusNotFound)
	elsewhere := b.run(b.newSuite("others", "a"), source, nil)
	b.get(first + "/compare?with=" + id(elsewhere)).want(http.StatusBadRequest).wantText("different suites")
}

// TestRunGoesOn: a run that waits for its judge shows how far it is, and can be
// cancelled.
func TestRunGoesOn(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 1), make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer model.Close()
	defer close(release)
	w := newWorld(t, "sqlite", "--judge-api", "openai", "--judge-url", model.URL+"/v1", "--judge-model", "slow")
	b := w.as(access.Member)
	source := b.upload("pdf", map[string]string{"SKILL.md": goodText})
	suite := b.newSuite("triggers", "extract tables from a pdf", "bake bread")
	path := b.post(suite+"/runs", url.Values{"subject": {"source:" + id(source)}}).want(http.StatusSeeOther).Header.Get("Location")
	<-asked
	p := b.eventually(path, "running").wantText("0 of 2 trials", "Refresh", "◐ pending extract tables from a pdf").
		wantForms(path + "/cancel")
	checkPage(t, p)
	if got := attr(p.all("section.live")[0], "data-events"); got != path+"/events" {
		t.Errorf("the page listens to %q", got)
	}
	w.as(access.Viewer).get(path).want(http.StatusOK).wantForms()
	b.post(path+"/cancel", nil).wantLocation(path)
	b.get(path).wantText("The run was cancelled", "cancelled", "2 skipped")
}
