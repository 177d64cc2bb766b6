package web_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/web"
)

// record writes entries without a caller.
func (w *world) record(entries ...audit.Entry) {
	w.T.Helper()
	err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) error {
		for _, e := range entries {
			e.OrgID = w.org.ID
			if err := audit.Record(w.T.Context(), tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

// entries are the sentences that the audit log shows.
func (p *page) entries() (all []string) {
	for _, row := range p.all("tr")[1:] {
		cells := []string{}
		for n := range row.ChildNodes() {
			if n.Data == "td" {
				cells = append(cells, textOf(n))
			}
		}
		all = append(all, cells[1])
	}
	return all
}

// hrefs are where the links of a page lead.
func (p *page) hrefs() (all []string) {
	for _, a := range p.all("a") {
		all = append(all, attr(a, "href"))
	}
	return all
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin, member := w.as(access.AdminRole), w.as(access.Member)
		source := member.upload("pdf", map[string]string{"SKILL.md": goodText})
		suite := member.newSuite("triggers", "extract tables from a pdf")
		run := member.run(suite, source, nil)
		gone := member.newSuite("short-lived", "a")
		member.post(gone+"/delete", nil).want(http.StatusSeeOther)
		admin.post("/settings/keys", url.Values{"name": {"CI"}, "permission": {"read", "write"}}).want(http.StatusOK)

		p := admin.get("/settings/audit").want(http.StatusOK).wantForms()
		checkPage(t, p)
		got := strings.Join(p.entries(), "\n")
		for _, want := range []string{
			"@example.org created the key CI (holder admin-", "permissions read and write)",
			"deleted the suite short-lived (", "started a run of pdf (baseline none, suite " + id(suite)[:13] + "… , trials 1)", "created the source pdf (type upload)",
			"the operator created the organisation default (plan team)",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no entry says %q:\n%s", want, got)
			}
		}
		hrefs := p.hrefs()
		for path, want := range map[string]bool{source: true, suite: true, run: true, gone: false, "/settings/keys": true} {
			if slices.Contains(hrefs, path) != want {
				t.Errorf("a link to %s: %v, want %v", path, !want, want)
			}
		}
		p.wantText("evals.suite.delete in a browser, request ")
		// There is no link to a thing that the caller may not open.
		narrowed := w.as(access.AdminRole, access.Admin).get("/settings/audit").want(http.StatusOK).wantText("created the source pdf")
		if slices.Contains(narrowed.hrefs(), source) {
			t.Error("a link leads to a page that would refuse")
		}
		for _, refused := range []*browser{member, w.as(access.Viewer)} {
			refused.get("/settings/audit").want(http.StatusForbidden).wantText("This needs the permission admin")
			refused.get("/settings").wantNoText("Audit log")
		}
		admin.get("/settings").wantText("Audit log")
		w.otherOrg(access.Team).get("/settings/audit").want(http.StatusOK).wantText("signed in with").
			wantNoText("triggers", "short-lived", "CI")
	})
}

// TestAuditFilters: the page filters and turns its pages as the API does.
func TestAuditFilters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		admin := w.as(access.AdminRole)
		var many []audit.Entry
		for n := range 60 {
			many = append(many, audit.Entry{Action: "alerts.rule.disable", Target: audit.Target{Kind: "alert", ID: fmt.Sprint("gone-", n), Name: "no_data"}})
		}
		w.record(many...)
		w.record(audit.Entry{Action: "registry.entry.delete", Target: audit.Target{Kind: "entry", ID: "old", Name: "pdf tools"}})
		const log = "/settings/audit"
		for query, want := range map[string]int{
			"?action=alerts.": 50, "?action=alerts.rule.disable": 50, "?action=registry.entry": 1,
			"?target=gone-7": 1, "?target=pdf+tools": 1,
			"?actor=system&action=registry.": 1, "?since=2020-01-02&action=registry.": 1, "?until=2020-01-02": 0,
			"?since=2120-01-02": 0, "?actor=eve%40example.org": 0,
			"?since=2020-01-02T03:04:05Z&action=registry.": 1, "?action=%25": 0, "?action=registry.&actor=++system+": 1,
		} {
			p := admin.get(log + query).want(http.StatusOK)
			if want == 0 {
				p.wantText("No matching entries", "Show all entries")
				continue
			}
			if got := len(p.entries()); got != want {
				t.Errorf("%s: %d entries, want %d", query, got, want)
			}
		}
		p := admin.get(log + "?action=registry.entry&since=2020-01-02T03:04:05Z&until=2120-01-02&actor=system").
			wantText("the service deleted the entry pdf tools")
		for selector, want := range map[string]string{"input#since": "2020-01-02T03:04:05Z", "input#until": "2120-01-02", "input#actor": "system"} {
			if got := attr(p.all(selector)[0], "value"); got != want {
				t.Errorf("%s comes back as %q, want %q", selector, got, want)
			}
		}
		if got := chosen(p, "action"); got != "registry.entry" {
			t.Errorf("the action comes back as %q", got)
		}
		if got := chosen(admin.get(log+"?action=alerts.rule.disable"), "action"); got != "alerts.rule.disable" {
			t.Errorf("the action comes back as %q", got)
		}

		first := admin.get(log + "?action=alerts.")
		older := next(first)
		second := admin.get(older).want(http.StatusOK).wantText("Newest").wantNoText("Older")
		if got := len(first.entries()) + len(second.entries()); got != 60 {
			t.Errorf("both pages have %d entries, want 60", got)
		}
		if newest := "/settings/audit?action=alerts."; !slices.Contains(second.hrefs(), newest) {
			t.Errorf("no link back to %s", newest)
		}
		checkPage(t, second)
		checkPage(t, admin.get(log+"?since=soon&until=1.1.2026").want(http.StatusBadRequest).
			wantText("Since must be an RFC 3339 time or a day", "Until must be an RFC 3339 time or a day").
			wantNoText("No matching entries"))
		admin.get(log + "?cursor=none").want(http.StatusBadRequest).wantText("Cursor must be")
		admin.get(log + "?actor=%00").want(http.StatusBadRequest)
		// A cursor is of one organisation.
		theirs := next(w.otherOrg(access.Team).get(older).want(http.StatusBadRequest))
		if theirs != "" {
			t.Errorf("another organisation is led to %s", theirs)
		}
	})
}

// chosen is the value of a select.
func chosen(p *page, name string) string {
	for _, n := range p.all("option") {
		if slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "selected" }) && within(n, name) {
			return attr(n, "value")
		}
	}
	return ""
}

// within reports whether an element is in the one with that id.
func within(n *html.Node, id string) bool {
	for a := range n.Ancestors() {
		if attr(a, "id") == id {
			return true
		}
	}
	return false
}

// next is where the page after this one is, or "".
func next(p *page) string {
	for _, a := range p.all("a") {
		if attr(a, "rel") == "next" {
			return attr(a, "href")
		}
	}
	return ""
}

func TestAuditLogIsInert(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	w.record(
		audit.Entry{Action: "registry.version.rollback", Target: audit.Target{Kind: "entry", ID: payload, Name: payload}, Detail: audit.Detail{"reason": payload, payload: []string{payload}, "suite": "javascript:alert(1)"}},
		audit.Entry{Action: payload, Target: audit.Target{Kind: payload, ID: payload}, Detail: audit.Detail{"n": 1.5, "o": object{"a": payload}, "yes": true, "no": false}},
		audit.Entry{Action: "repohost.settings.change", Target: audit.Target{Kind: "organisation", ID: w.org.ID}},
	)
	admin := w.as(access.AdminRole)
	p := admin.get("/settings/audit").want(http.StatusOK).wantInert().
		wantText("rolled back "+payload[:30], "n 1.5", "no no", "yes yes", "changed the code host settings of default")
	checkPage(t, p)
	q := url.QueryEscape(payload)
	admin.get("/settings/audit?actor=" + q + "&action=" + q + "&target=" + q).want(http.StatusOK).wantInert().
		wantText("No matching entries")
	admin.get("/settings/audit?since=" + q + "&cursor=" + q).want(http.StatusBadRequest).wantInert()
}

var actionText = regexp.MustCompile(`"([a-z]+\.[a-z]+\.[a-z]+(?:-[a-z]+)*)"`)

// TestAuditWords: every action that the code records has words, and every link
// of the log is a page.
func TestAuditWords(t *testing.T) {
	t.Parallel()
	var known []string
	for _, area := range web.AuditAreas {
		for _, words := range area.Words {
			known = append(known, words.Action)
			if !strings.HasPrefix(words.Action, area.Prefix) {
				t.Errorf("%s stands among %s", words.Action, area.Prefix)
			}
		}
	}
	recorded := map[string]bool{}
	for room, prefix := range map[string]string{
		"approvals": "approvals.",
		"alerts":    "alerts.", "auth": "auth.", "auth/members": "auth.", "auth/keyrules": "auth.", "auth/scim": "scim.", "auth/serviceaccounts": "auth.", "auth/signin": "auth.", "auth/tokens": "catalog.", "community": "community.", "comparisons": "evals.", "costs": "costs.", "content": "evidence.",
		"gates": "gates.", "grades": "grades.", "improve": "evals.", "improve/unattended": "improve.", "registry/release": "registry.", "sets": "sets.",
		"installations": "registry.", "proposals": "proposals.", "proposals/apply": "proposals.", "privacy": "privacy.", "publishers": "publishers.", "events": "events.", "registry": "registry.", "repohost": "repohost.",
		"repohost/claims": "repohost.", "runs": "evals.", "schedules": "evals.", "skills/curate": "skills.", "sources": "sources.", "suggestions": "sources.",
		"suites": "evals.", "teams": "teams.", "telemetry": "telemetry.",
	} {
		for file, text := range sourcesOf(t, folderOf(t, room)) {
			for _, match := range actionText.FindAllStringSubmatch(text, -1) {
				if strings.HasPrefix(match[1], prefix) {
					recorded[match[1]] = true
					if !slices.Contains(known, match[1]) {
						t.Errorf("%s records %s: say in auditAreas what it did", file, match[1])
					}
				}
			}
		}
	}
	for _, action := range known {
		if !recorded[action] {
			t.Errorf("nothing records %s", action)
		}
	}
	for kind, path := range web.PagesOfTargets {
		if !slices.Contains(web.PagePaths(), path) {
			t.Errorf("the page of a %s would be %s, which is none", kind, path)
		}
	}
}

// folderOf finds a room in its wing.
func folderOf(t *testing.T, room string) string {
	t.Helper()
	found, err := filepath.Glob("../*/" + room)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s is in %q, %v", room, found, err)
	}
	return found[0]
}

// sourcesOf reads the code of a package without its tests.
func sourcesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}
