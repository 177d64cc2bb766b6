package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// bookText is a skill whose description lacks the words that people use.
const bookText = "---\nname: accounts\ndescription: Keeps the accounts in order.\n---\n# Accounts\n\nRead what came in and book it.\n"

// invoices are queries with two words each that the description lacks, so that
// every split shows them to the writer, and some that the skill must not take.
var invoices = []string{
	"read the invoice from our supplier", "book this supplier invoice", "what does the supplier invoice say in total", "put the supplier invoice amounts into the ledger",
	"which amounts does the supplier want by invoice", "amounts of every supplier invoice as a list", "sum up the invoice of each supplier", "check the ledger against the supplier invoice",
	"!what is the weather tomorrow", "!write a poem about cats", "!translate this letter",
}

// manyInvoices are enough of them to prove something.
var manyInvoices = slices.Concat(invoices, []string{
	"settle the supplier invoice of today", "settle the supplier invoice of last week", "pay the supplier invoice of today", "pay the supplier invoice of last week",
	"file the supplier invoice of today", "file the supplier invoice of last week", "approve the supplier invoice of today", "approve the supplier invoice of last week",
	"record the supplier invoice of today", "record the supplier invoice of last week", "find the supplier invoice of today", "find the supplier invoice of last week",
	"!sing a song", "!plan my holiday", "!draw a house", "!name ten rivers", "!count to twenty", "!water my plant", "!scale the recipe for six",
})

// improve starts an improve run by its form and returns the path of its page.
func (b *browser) improve(suite, source string) string {
	b.w.T.Helper()
	return b.post(suite+"/improve-runs", url.Values{"subject": {"source:" + id(source)}}).
		want(http.StatusSeeOther).Header.Get("Location")
}

func TestImproveRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b, viewer, other := w.as(access.Member), w.as(access.Viewer), w.otherOrg(access.Team)
		source := b.upload("accounts", map[string]string{"SKILL.md": bookText})
		suite := b.newSuite("invoices", manyInvoices...)
		b.get(suite+"/improve-runs").want(http.StatusOK).wantText("No improve runs yet", "whetstone eval improve "+id(suite))
		path := b.improve(suite, source)
		p := b.eventually(path, "succeeded").
			wantText("Changes of the winner", "Proposed text 100", "Proved to be better", "6 of 6", "training, 12 held out", "builtin", "winner", "current").wantForms()
		checkPage(t, p)
		if got := p.texts("del"); !slices.Equal(got, []string{}) {
			t.Errorf("the winner takes away %q", got)
		}
		if got := strings.Join(p.texts("ins"), "|"); !strings.HasPrefix(got, "Use when asked about ") {
			t.Errorf("the winner adds %q", got)
		}
		proposal := link(p, "View proposal")
		back := b.get(proposal).want(http.StatusOK).wantText("accounts: change the description", "Proposed by an improve run")
		if got := link(back, "improve run"); got != path {
			t.Errorf("the proposal leads back to %q", got)
		}
		for _, page := range []string{suite, suite + "/improve-runs"} {
			listed := b.get(page).want(http.StatusOK).wantText(" of 3", "● succeeded", "6 of 6")
			checkPage(t, listed)
			if hrefs := listed.hrefs(); !slices.Contains(hrefs, path) || !slices.Contains(hrefs, proposal) {
				t.Errorf("%s leads to %q", page, hrefs)
			}
			viewer.get(page).want(http.StatusOK).wantForms()
		}
		b.post(path+"/cancel", nil).want(http.StatusConflict).wantText("already over")
		stream := viewer.get(path + "/events").want(http.StatusOK)
		if !strings.Contains(stream.body, `"status":"succeeded"`) || !strings.Contains(stream.body, `"iterations":`) {
			t.Errorf("the events are %s", stream.body)
		}
		b.do("GET", path+"/events", nil, http.Header{"Last-Event-Id": {"1"}}).want(http.StatusNoContent)
		b.do("GET", path+"/events", nil, http.Header{"Last-Event-Id": {"x"}}).want(http.StatusBadRequest)
		viewer.get(path).want(http.StatusOK).wantForms()
		for _, page := range []string{path, path + "/events", suite + "/improve-runs"} {
			other.get(page).want(http.StatusNotFound)
		}
		b.post(suite+"/delete", nil).want(http.StatusSeeOther)
		b.get(path).want(http.StatusNotFound)
		b.get(proposal).want(http.StatusOK).wantText("Proposed by improve_run")
	})
}

// link is where a link with that text leads.
func link(p *page, text string) string {
	for _, a := range p.all("a") {
		if textOf(a) == text {
			return attr(a, "href")
		}
	}
	return ""
}

// TestImproveEstimate: a page says what an improve run would need before it is started.
func TestImproveEstimate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, viewer, other := w.as(access.Member), w.as(access.Viewer), w.otherOrg(access.Team)
	suite := b.newSuite("invoices", invoices...)
	subject := "?subject=source:" + id(b.upload("accounts", map[string]string{"SKILL.md": bookText}))
	page := b.get(suite+"/improve"+subject).want(http.StatusOK).
		wantText("Improve accounts with invoices", "Estimate", "Cost $0.00", "Trials", "Start improve run").wantForms(suite + "/improve-runs")
	checkPage(t, page)
	checkPage(t, viewer.get(suite+"/improve"+subject).want(http.StatusOK).wantText("Estimate").wantForms())
	checkPage(t, b.get(suite+"/improve"+subject+"&target=body").want(http.StatusConflict).wantText("The builtin judge writes descriptions only").wantForms())
	b.get(suite + "/improve" + subject + "&max_cost_usd=much").want(http.StatusBadRequest).wantText("must be dollars")
	b.get(suite + "/improve").want(http.StatusBadRequest).wantText("Choose a skill to improve")
	other.get(suite + "/improve" + subject).want(http.StatusNotFound)
}

func TestImproveForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b, viewer, other := w.as(access.Member), w.as(access.Viewer), w.otherOrg(access.Team)
	suite, few := b.newSuite("invoices", invoices...), b.newSuite("few", "one", "two", "!three")
	start := func(p *page) (button *html.Node) {
		for _, n := range p.all("button") {
			if textOf(n) == "Start improve run" {
				button = n
			}
		}
		return button
	}
	disabled := func(p *page) bool {
		return slices.ContainsFunc(start(p).Attr, func(a html.Attribute) bool { return a.Key == "disabled" })
	}
	p := b.get(suite).wantText("There is no skill to improve. Upload a source or publish an entry first.", "No improve runs yet.")
	if !disabled(p) || attr(start(p), "aria-describedby") != "improve-why" {
		t.Error("without a skill the button can be pressed, or does not say why not")
	}
	source := b.upload("accounts", map[string]string{"SKILL.md": bookText})
	subject := "source:" + id(source)
	if p = b.get(suite).wantNoText("There is no skill to improve"); disabled(p) {
		t.Error("the button cannot be pressed")
	}
	const reason = "An improve run needs at least 4 different trigger queries that can be run, and the suite has 3"
	if p = b.get(few).wantText(reason); !disabled(p) {
		t.Error("with few queries the button can be pressed")
	}
	checkPage(t, p)
	for _, c := range []struct {
		suite  string
		fields url.Values
		status int
		want   string
	}{
		{suite, url.Values{}, 400, "Choose a skill to improve"},
		{suite, url.Values{"subject": {"skill:x"}}, 400, "Choose a skill to improve"},
		{suite, url.Values{"subject": {subject}, "iterations": {"11"}}, 400, "descriptions to try must be 1 to 10"},
		{suite, url.Values{"subject": {subject}, "iterations": {"x"}}, 400, "descriptions to try must be 1 to 10"},
		{suite, url.Values{"subject": {subject}, "holdout": {"9"}}, 400, "held out must be 10 to 90 percent"},
		{suite, url.Values{"subject": {subject}, "holdout": {"0.4"}}, 400, "held out must be 10 to 90 percent"},
		{suite, url.Values{"subject": {"entry:0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70"}}, 404, "not found"},
		{few, url.Values{"subject": {subject}}, 409, reason},
	} {
		p := b.post(c.suite+"/improve-runs", c.fields).want(c.status).wantText(c.want, "Start improve run")
		checkPage(t, p)
		if want := c.fields.Get("iterations"); want != "" && attr(p.all("input#iterations")[0], "value") != want {
			t.Errorf("%v does not come back", c.fields)
		}
	}
	form := url.Values{"subject": {subject}, "iterations": {"1"}, "holdout": {"25"}}
	path := b.post(suite+"/improve-runs", form).want(http.StatusSeeOther).Header.Get("Location")
	b.get(path).want(http.StatusOK).wantText("Candidates to try 1", "8 training, 3 held out")

	viewer.post(suite+"/improve-runs", form).want(http.StatusForbidden)
	viewer.post(path+"/cancel", nil).want(http.StatusForbidden)
	other.post(suite+"/improve-runs", form).want(http.StatusNotFound)
	other.post(path+"/cancel", nil).want(http.StatusNotFound)
	other.post(other.newSuite("theirs", invoices...)+"/improve-runs", form).want(http.StatusForbidden)
	for _, page := range []string{suite + "/improve-runs", path + "/cancel"} {
		b.do("POST", page, form, http.Header{"Sec-Fetch-Site": {"cross-site"}}).want(http.StatusForbidden)
	}
}

// TestImproveRunGoesOn: an improve run that waits for its model shows how far
// it is, and can be cancelled; the suite lists the newest ones.
func TestImproveRunGoesOn(t *testing.T) {
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
	hostile := strings.ReplaceAll(bookText, "Keeps the accounts in order.", `'Keeps <script>alert(1)</script> "><img src=x onerror=alert(1)> in order.'`)
	source := b.upload(payload, map[string]string{"SKILL.md": hostile})
	suite := b.newSuite(payload, append(slices.Clone(invoices), payload)...)
	path := b.improve(suite, source)
	<-asked
	p := b.eventually(path, "running").
		wantText("0 of at most 270 trials", "Refresh", "not scored yet", "<script>alert(1)</script>").wantForms(path + "/cancel").wantInert()
	checkPage(t, p)
	if got := attr(p.all("section.live")[0], "data-events"); got != path+"/events" {
		t.Errorf("the page listens to %q", got)
	}
	if got := attr(p.all("tbody")[0], "data-fresh"); got != "descriptions" {
		t.Errorf("the descriptions are renewed as %q", got)
	}
	w.as(access.Viewer).get(path).want(http.StatusOK).wantForms()
	b.post(path+"/cancel", nil).wantLocation(path)
	b.get(path).wantText("The improve run was cancelled", "○ cancelled").wantForms()
	b.post(path+"/cancel", nil).wantLocation(path) // twice is no error
	for range 5 {
		b.post(b.improve(suite, source)+"/cancel", nil).want(http.StatusSeeOther)
	}
	b.get(suite).want(http.StatusOK).wantInert().wantText("All 6 improve runs")
	if got := len(b.get(suite + "/improve-runs").want(http.StatusOK).wantInert().wantText("0 of 3").all("tr")); got != 7 {
		t.Errorf("%d rows, want the head and 6 runs", got)
	}
}
