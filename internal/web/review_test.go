package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// missed reports prompts for which a skill should have fired, each as often as
// its place from the end says: the first one is the surest suggestion.
func (b *browser) missed(skill string, texts ...string) {
	b.w.T.Helper()
	var prompts, invocations []object
	for i, text := range texts {
		for range len(texts) - i {
			id, when := uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano)
			prompts = append(prompts, object{"prompt_id": id, "session_id": id, "occurred_at": when, "prompt_text": text, "prompt_kind": "user"})
			invocations = append(invocations, object{
				"skill_invocation_id": id, "session_id": id, "skill_name": skill, "occurred_at": when,
				"triggered": false, "matched_prompt_id": id,
			})
		}
	}
	b.api.Post("/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": object{
		"skill_invocations": invocations, "prompts": prompts,
	}}).Want(http.StatusCreated)
}

// waiting makes a source whose skill missed these, waits until they are
// suggested, and returns the path of its page.
func (b *browser) waiting(skill string, texts ...string) string {
	b.w.T.Helper()
	b.missed(skill, texts...)
	path := b.upload(skill, map[string]string{"SKILL.md": strings.Replace(sourceText, "name: pdf", "name: "+skill, 1)})
	b.post(path, url.Values{"label": {skill}, "skill": {b.skillID(skill)}}).wantLocation(path)
	b.eventually("/review?source="+id(path), fmt.Sprintf("%d pending", len(texts)))
	return path
}

// eventually waits until a page says something that a job brings about.
func (b *browser) eventually(path, want string) *page {
	b.w.T.Helper()
	var p *page
	apptest.Eventually(b.w.T, strconv.Quote(want), func() bool {
		p = b.get(path).want(http.StatusOK)
		return strings.Contains(textOf(p.doc), want)
	})
	return p
}

// press sends the form of a page that has a button with that value, or that
// key if it has no value, and returns the page after it.
func (b *browser) press(p *page, key string) *page {
	b.w.T.Helper()
	for _, form := range p.all("form") {
		fields, found := url.Values{}, false
		for n := range form.Descendants() {
			switch {
			case n.Data == "input" || n.Data == "option" && !fields.Has("suite") && attr(n.Parent, "name") == "suite":
				fields.Set(attr(nameOf(n), "name"), attr(n, "value"))
			case n.Data == "button" && attr(n, "data-key") == key:
				found = true
				if attr(n, "name") != "" {
					fields.Set(attr(n, "name"), attr(n, "value"))
				}
			}
		}
		if found {
			return b.get(b.post(attr(form, "action"), fields).want(http.StatusSeeOther).Header.Get("Location")).want(http.StatusOK)
		}
	}
	b.w.T.Fatalf("%s has no button for %s", p.name, key)
	return nil
}

// nameOf is the element with the name of a field: an option's is its select's.
func nameOf(n *html.Node) *html.Node {
	if n.Data == "option" {
		return n.Parent
	}
	return n
}

// shown is the suggestion of a page, "" if there is none.
func (p *page) shown() string { return strings.Join(p.texts("h2#query"), "|") }

func TestReview(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Member)
		b.get("/review").want(http.StatusOK).wantText("Nothing to review", "Upload a source")
		source := b.waiting("pdf", "read this table", "what does\r\nthe file say", "tables please", "open it")
		suite := apptest.Text(b.api.Post("/api/v1/eval-suites", object{
			"name": "triggers", "source_id": id(source), "source_kind": "manual", "verifier_kind": "llm_judge",
			"cases_json": []object{{"query": "first", "expectation": "should_trigger"}},
		}).Want(http.StatusCreated).Object(), "suite", "id")
		p := b.get("/review").wantText("4 pending", "4 times", "did not fire", "should trigger", "1 of 4", "triggers")
		checkPage(t, p)
		if p.shown() != "read this table" {
			t.Fatalf("%q is shown first", p.shown())
		}
		p = b.press(p, "a").wantText("Accepted as a draft.", "3 pending", "1 of 3", "accepted: read this table")
		p = b.press(p, "r").wantText("Rejected.", "2 pending", "rejected: what does the file say")
		p = b.press(p, "u").wantText("The decision was undone.", "3 pending")
		if p.shown() != "what does the file say" {
			t.Errorf("after undo %q is shown", p.shown())
		}
		if p = b.press(p, "u").wantText("4 pending"); len(p.all("form.undo")) != 0 {
			t.Error("there is still something to undo")
		}
		p = b.press(b.press(p, "a"), "r").wantText("2 pending")
		p = b.press(p, "s").wantText("Added to the suite.", "1 pending", "accepted: tables please")
		b.get(source).wantText("accepted", "rejected", "draft", "triggers")
		b.get("/suites/" + suite).wantText("2 cases")
		p = b.press(p, "r").wantText("All done")
		b.get("/review?source=" + id(source)).wantText("Nothing to review here")

		p = b.press(p, "u").wantText("1 pending", "open it")
		b.press(p, "u").wantText("The decision was undone.")
		b.get("/suites/" + suite).wantText("1 case")
		b.eventually("/review", "2 pending Answer several at once People asked this, and the skill did not trigger. tables please")
	})
}

// TestReviewPlace: people can skip, and keep their place when they decide.
func TestReviewPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	first := b.waiting("alpha", "one", "two", "three")
	b.waiting("beta", "four", "five")
	var got []string
	for at := range 7 {
		got = append(got, b.get(fmt.Sprintf("/review?at=%d", at)).shown())
	}
	if diff := cmp.Diff([]string{"one", "two", "three", "four", "five", "one", "one"}, got); diff != "" {
		t.Errorf("the queue (- want, + got):\n%s", diff)
	}
	p := b.get("/review?at=1").wantText("2 of 5", "Back p", "Skip n")
	if p = b.press(p, "a").wantText("2 of 4"); p.shown() != "three" {
		t.Errorf("%q is shown at the place of two", p.shown())
	}
	p = b.get("/review?at=3").wantText("4 of 4").wantNoText("Skip n")
	if p = b.press(p, "r").wantText("1 of 3"); p.shown() != "one" {
		t.Errorf("%q is shown after the last one", p.shown())
	}
	p = b.get("/review/" + id(first)).want(http.StatusOK).wantText("2 pending")
	if p = b.press(p, "u").wantText("4 pending"); p.shown() != "five" {
		t.Errorf("undo shows %q, want what was decided last", p.shown())
	}
}

// picks returns the values of the checkboxes of a list.
func (p *page) picks() (all []string) {
	for _, n := range p.all("input.pick") {
		all = append(all, attr(n, "value"))
	}
	return all
}

// TestReviewSeveral answers several suggestions of two sources at once, of which one is
// answered already, and undoes that.
func TestReviewSeveral(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Member)
		first := b.waiting("alpha", "one", "two", "three")
		b.waiting("beta", "four", "five")
		p := b.get(b.get("/review").href("Answer several at once")).want(http.StatusOK).
			wantText("5 pending", "one", "five", "alpha", "beta", "Accept selected", "People asked this, and the skill did not trigger.")
		checkPage(t, p)
		picks := p.picks()
		if len(picks) != 5 || strings.Contains(p.body, " checked") {
			t.Fatalf("%d can be selected, want 5 and none yet: %v", len(picks), picks)
		}
		if n := strings.Count(b.get(p.href("Select all on this page")).body, " checked"); n != 5 {
			t.Errorf("%d are selected, want all", n)
		}
		answer := func(decision string, selected ...string) *page {
			t.Helper()
			form := url.Values{"view": {"list"}, "decision": {decision}, "selected": selected}
			return b.get(b.post("/review", form).want(http.StatusSeeOther).Header.Get("Location")).want(http.StatusOK)
		}
		answer("accept").wantText("Select the suggestions first.", "5 pending")
		answer("reject", picks[1]).wantText("1 rejected.", "4 pending")
		audited := w.Count("audit_entries WHERE action = 'sources.review.set'")
		p = answer("accept", picks[:4]...).wantText("3 accepted, 1 had been answered already.", "1 pending", "accepted: ", "and 2 more")
		if n := w.Count("audit_entries WHERE action = 'sources.review.set'") - audited; n != 3 {
			t.Errorf("%d audit entries, want 3", n)
		}
		if n := w.Count("source_reviews WHERE accept_target = 'draft'"); n != 3 {
			t.Errorf("%d drafts, want 3", n)
		}
		p = b.press(p, "u").wantText("3 decisions were undone.", "4 pending")
		b.press(p, "u").wantText("The decision was undone.", "5 pending")
		b.post("/review", url.Values{"view": {"list"}, "decision": {"suite"}, "selected": picks}).want(http.StatusBadRequest)
		b.get(first).want(http.StatusOK).wantText("Accept selected", "three")
		b.post("/review", url.Values{"view": {"list"}, "back": {"source"}, "scope": {id(first)}, "decision": {"accept"}}).wantLocation(first)
		w.as(access.Viewer).get(first).want(http.StatusOK).wantText("three").wantForms()
		b.post("/review", url.Values{"view": {"list"}, "decision": {"accept"}, "selected": {"x y"}}).want(http.StatusBadRequest)
		b.post("/review", url.Values{"view": {"list"}, "decision": {"accept"}, "selected": slices.Repeat(picks, 11)}).want(http.StatusBadRequest)

		viewer, other := w.as(access.Viewer), w.otherOrg(access.Team)
		viewer.get("/review?view=list").want(http.StatusOK).wantText("five").wantForms()
		form := url.Values{"view": {"list"}, "decision": {"accept"}, "selected": picks}
		viewer.post("/review", form).want(http.StatusForbidden)
		other.post("/review", form).want(http.StatusForbidden)
		b.get("/review?view=list&source="+id(first)).want(http.StatusOK).wantText("3 pending", "three").wantNoText("five")
		b.get("/review?view=list&page=2").want(http.StatusOK).wantText("Nothing to review here")
	})
}

func TestReviewAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, viewer, other := w.as(access.Member), w.as(access.Viewer), w.otherOrg(access.Team)
	source := b.waiting("pdf", payload)
	viewer.get("/review").want(http.StatusOK).wantText("1 pending").wantForms()
	other.get("/review").want(http.StatusOK).wantNoText("pending", "alert(1)")
	p := b.get("/review")
	p.wantInert().wantText(payload)
	form := url.Values{"decision": {"accept"}, "source": {id(source)}, "case": {hidden(p, "case")}}
	viewer.post("/review", form).want(http.StatusForbidden)
	viewer.post("/review/undo", nil).want(http.StatusForbidden)
	other.post("/review", form).want(http.StatusForbidden)
	b.do("POST", "/review", form, http.Header{"Sec-Fetch-Site": {"cross-site"}}).want(http.StatusForbidden)
	for _, c := range []url.Values{
		{"decision": {"maybe"}}, {"decision": {"suite"}}, {"case": {"{}"}}, {"case": {"nothing"}}, {"case": {`{"ID":"x","Query":"q","Provenance":"missed_query"}`}},
	} {
		bad := url.Values{}
		for name, values := range form {
			bad[name] = values
		}
		for name, values := range c {
			bad[name] = values
		}
		b.post("/review", bad).want(http.StatusBadRequest)
	}
	b.post("/review", url.Values{"decision": {"suite"}, "suite": {uuid.NewString()}, "source": {id(source)}, "case": form["case"]}).want(http.StatusNotFound)
	b.get("/review").wantText("1 pending")
	b.post("/review", form).want(http.StatusSeeOther)
	b.get("/review").wantInert()
	b.get(source).wantInert()
	other.post("/review/undo", nil).wantLocation("/review?at=0")
	b.get(source).wantText("accepted")
}

// hidden is the value of a hidden field of a page.
func hidden(p *page, name string) string {
	for _, n := range p.all("input") {
		if attr(n, "name") == name {
			return attr(n, "value")
		}
	}
	return ""
}

// TestAcceptLeadsOn: what is accepted becomes a case in one step, also where there is no
// suite yet, and drafts do on the page of their source.
func TestAcceptLeadsOn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Member)
		source := b.waiting("pdf", "read this table", "tables please", "open it")
		p := b.press(b.get("/review"), "a").wantText("Accepted as a draft.")
		if drafts := p.href("Add the drafts to a suite"); drafts != source+"#drafts" {
			t.Errorf("the drafts are at %s", drafts)
		}
		b.get(source).wantText("Add 1 draft to")
		drafts := func(target, name string) *page {
			return b.post(source+"/drafts", url.Values{"target": {target}, "name": {name}})
		}
		drafts("elsewhere", "").want(http.StatusBadRequest)
		drafts("new", "").want(http.StatusBadRequest).wantText("Enter a name for the new suite")
		drafts("new", "Tables").wantLocation(source)
		p = b.get(source).wantText("1 added to Tables.").wantNoText("draft to")
		b.get(p.href("Open the suite")).wantText("Tables", "1 case", "read this table")
		p = b.press(b.get("/review"), "s").wantText("Added to the suite.")
		b.get(p.href("Open the suite")).wantText("Tables", "2 cases")

		other := b.waiting("csv", "read that table")
		p = b.press(b.get("/review?source="+id(other)), "s").wantText("Added to csv.", "accepted: read that table")
		b.get(p.href("Open the suite")).wantText("csv", "1 case", "read that table")
		w.as(access.Viewer).post(source+"/drafts", url.Values{"target": {"new"}, "name": {"x"}}).want(http.StatusForbidden)
		w.as(access.Viewer).get(source).wantNoText("Add the drafts")
		w.otherOrg(access.Team).post(source+"/drafts", url.Values{"target": {"new"}, "name": {"x"}}).want(http.StatusForbidden)
	})
}
