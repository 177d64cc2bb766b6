package web_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/web"
)

// A list of the dashboard, with three rows that are called alpha, beta and gamma.
type list struct {
	path  string
	label string            // of the table
	sorts map[string]string // the first letters of the names in ascending order, by field
	q     bool              // names can be searched
}

// order is the first letters of the rows of the list that the test made.
func (l list) order(p *page) string {
	var letters strings.Builder
	for _, group := range p.all("div") {
		if attr(group, "aria-label") != l.label {
			continue
		}
		for n := range group.Descendants() {
			if n.Data != "tr" || n.Parent.Data != "tbody" {
				continue
			}
			for _, name := range []string{"alpha", "beta", "gamma"} {
				if strings.Contains(textOf(n), name) {
					letters.WriteByte(name[0])
					break
				}
			}
		}
	}
	return letters.String()
}

func reversed(s string) string {
	letters := []byte(s)
	slices.Reverse(letters)
	return string(letters)
}

// TestLists sorts every list by every column that it offers, in both directions,
// searches it, and asks for pages that do not exist.
func TestLists(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Owner)
		suite := w.fillLists(b)
		lists := []list{
			{"/skills", "Skills", map[string]string{
				"name": "abg", "status": "bga", "pass_rate": "bga", "trigger_rate": "", "unique_sessions": "", "last_seen_at": "",
			}, true},
			{"/registry", "Entries", map[string]string{"name": "abg", "installed": "bga", "updated_at": "gab"}, true},
			{"/sources", "Sources", map[string]string{"label": "abg", "origin": "", "skill": "", "waiting": "", "created_at": "bga"}, true},
			{"/suites", "Suites", map[string]string{"name": "abg", "verifier": "", "cases": "gab", "created_at": "bga"}, true},
			{suite, "Runs", map[string]string{"created_at": "", "status": "", "score": "", "pass_rate": "", "failed": ""}, false},
			{suite + "/improve-runs", "Improve runs", map[string]string{"created_at": "", "status": ""}, false},
			{"/gates", "Gates", map[string]string{"version": "gab", "verdict": "bag", "created_at": "bga"}, false},
			{"/incidents", "Incidents", map[string]string{"skill": "abg", "state": "", "installations": "gab", "opened_at": "bga"}, false},
			{"/proposals", "Proposals", map[string]string{
				"skill": "abg", "type": "", "status": "", "confidence": "gba", "proposed_by": "", "created_at": "bga",
			}, false},
			{"/alerts", "Alerts", map[string]string{"type": "", "enabled": "", "channel": "", "created_at": "bga"}, false},
			{"/repohost", "Deliveries", map[string]string{
				"received_at": "bga", "event": "gab", "repository": "abg", "state": "", "connection": "", "entry": "", "attempted_at": "",
			}, false},
			{"/repohost", "Connections", map[string]string{
				"received_at": "", "event": "", "repository": "", "state": "", "connection": "abg", "entry": "bga", "attempted_at": "",
			}, false},
			{"/registry/" + w.Text(`SELECT MIN(entry_id) FROM trusted_publishers`) + "/publishers", "Trusted publishers", map[string]string{
				"created_at": "bga", "repository": "abg", "issuer": "", "ref": "gab", "workflow": "", "last_used_at": "gab",
			}, false},
			{"/community", "Skills", map[string]string{"name": "", "bundles": "", "contributors": "", "latest": ""}, false},
			{"/signals", "Skills", map[string]string{"name": "", "signals": ""}, false},
			{"/costs", "Costs by skill", map[string]string{"name": "", "cost": "", "uses": ""}, false},
			{"/settings/members", "Members", map[string]string{
				"name": "abg", "email": "gba", "role": "gab", "created_at": "bga", "last_seen_at": "",
				"invited_at": "", "invited_email": "", "invited_role": "", "invitation_expires_at": "",
			}, true},
			{"/settings/members", "Invitations", map[string]string{
				"name": "", "email": "", "role": "", "created_at": "", "last_seen_at": "",
				"invited_at": "bga", "invited_email": "abg", "invited_role": "gab", "invitation_expires_at": "agb",
			}, false},
			{"/settings/provisioning", "Groups", map[string]string{"name": "abg", "role": "gab", "created_at": "bga"}, false},
			{"/settings/webhooks", "Event webhooks", map[string]string{"url": "abg", "paused": "", "created_at": "bga"}, false},
			{"/settings/teams", "Teams", map[string]string{"name": "abg", "created_at": "bga"}, false},
			{"/settings/keys", "Keys", map[string]string{"name": "abg", "created_at": "bga", "last_used_at": "gab", "expires_at": "agb"}, false},
			{"/settings/service-accounts", "Service accounts", map[string]string{"name": "abg", "role": "", "created_at": "bga", "last_used_at": ""}, false},
			{"/settings/service-accounts/" + w.Text(`SELECT MIN(id) FROM users WHERE kind = 'service'`), "Keys", map[string]string{
				"name": "", "created_at": "", "last_used_at": "", "expires_at": "",
			}, false},
			{"/settings/catalog", "Catalog tokens", map[string]string{"name": "abg", "created_at": "bga", "last_used_at": "", "expires_at": "agb"}, false},
		}
		seen := map[string]bool{}
		for _, l := range lists {
			seen[l.pattern(t)] = true
			l.check(t, b)
		}
		for path := range web.SortedPages() {
			if !seen[path] && !strings.HasSuffix(path, ".csv") {
				t.Errorf("%s has no row here", path)
			}
		}
	})
}

// pattern is the path of the list's route.
func (l list) pattern(t *testing.T) string {
	t.Helper()
	for path := range web.SortedPages() {
		want, got := strings.Split(path, "/"), strings.Split(l.path, "/")
		if len(want) == len(got) && slices.EqualFunc(want, got, func(a, b string) bool { return a == b || strings.HasPrefix(a, "{") }) {
			return path
		}
	}
	t.Errorf("%s is no list", l.path)
	return ""
}

func (l list) check(t *testing.T, b *browser) {
	t.Helper()
	own := ""
	for _, field := range web.SortedPages()[l.pattern(t)] {
		name := strings.TrimPrefix(field, "-")
		if own == "" {
			own = field
		}
		want, ok := l.sorts[name]
		if !ok && name != "" {
			t.Errorf("%s: no order by %s", l.path, name)
		}
		for direction, want := range map[string]string{name: want, "-" + name: reversed(want)} {
			p := b.get(l.path + "?sort=" + direction).want(http.StatusOK)
			if got := l.order(p); want != "" && got != want {
				t.Errorf("%s by %s: %s, want %s", l.path, direction, got, want)
			}
			if marked := sortedHeads(p); len(marked) > 1 {
				t.Errorf("%s by %s: %v", l.path, direction, marked)
			} else if len(l.order(p)) > 0 && name != "" && !slices.Equal(marked, []string{order(direction)}) {
				t.Errorf("%s by %s: the heads say %v", l.path, direction, marked)
			}
		}
	}
	plain := l.order(b.get(l.path).want(http.StatusOK))
	for _, query := range []string{"sort=nonsense", "sort=" + url.QueryEscape("name; DROP TABLE skills"), "page=-1", "page=0", "page=1e9", "page=x", "sort=" + own} {
		if got := l.order(b.get(l.path + "?" + query).want(http.StatusOK)); got != plain {
			t.Errorf("%s?%s: %s, want %s", l.path, query, got, plain)
		}
	}
	// A page beyond the last leads to it, or says that there is nothing.
	beyond := b.get(l.path + "?page=1000000000")
	if beyond.StatusCode == http.StatusSeeOther {
		beyond = b.get(beyond.Header.Get("Location"))
	}
	if got := l.order(beyond.want(http.StatusOK)); plain != "" && got == "" {
		t.Errorf("%s: nothing on the page beyond the last", l.path)
	}
	if l.q {
		if got := l.order(b.get(l.path + "?q=BET").want(http.StatusOK)); got != "b" {
			t.Errorf("%s?q=BET: %q", l.path, got)
		}
		if got := l.order(b.get(l.path + "?q=" + url.QueryEscape("%")).want(http.StatusOK)); got != "" {
			t.Errorf("%s?q=%%: %q", l.path, got)
		}
	}
}

func order(field string) string {
	if strings.HasPrefix(field, "-") {
		return "descending"
	}
	return "ascending"
}

func sortedHeads(p *page) (all []string) {
	for _, th := range p.all("th") {
		if by := attr(th, "aria-sort"); by != "" && by != "none" {
			all = append(all, by)
		}
	}
	return all
}

// fillLists makes three rows for each list, in this order of time: beta, gamma, alpha. It
// returns the path of a suite.
func (w *world) fillLists(b *browser) (suite string) {
	w.T.Helper()
	exec := func(sql string, args ...any) {
		w.T.Helper()
		if _, err := w.DB.Exec(w.T.Context(), sql, args...); err != nil {
			w.T.Fatal(err)
		}
	}
	now := time.Now()
	entry := ""
	b.post("/repohost/installations", url.Values{"installation_id": {"1"}, "account_login": {"acme"}, "account_type": {"Organization"}}).
		wantLocation("/repohost")
	micros := func(n int) int64 { return store.Micros(now.Add(time.Duration(n) * time.Second)) }
	user := w.Text(`SELECT MIN(id) FROM users`)
	roles := map[string]string{"alpha": "member", "beta": "viewer", "gamma": "admin"}
	for i, name := range []string{"beta", "gamma", "alpha"} {
		b.sessions(name, now.Add(-time.Hour), [][]float64{grades(10, 8), grades(10, 3), grades(10, 0)}[i]...)
		entry = b.push(name, "1.0.0", map[string]string{"SKILL.md": skillText(name, "Does "+name, "Do it.")})
		exec(`UPDATE registry_entries SET installation_count = $1, updated_at = $2 WHERE id = $3`, i, micros([]int{9, 1, 5}[i]), entry)
		b.upload(name, map[string]string{"SKILL.md": strings.Replace(goodText, "pdf", name, 1)})
		suite = b.newSuite(name, []string{"do " + name, "make " + name, "try " + name}[:[]int{3, 1, 2}[i]]...)
		w.proposed(proposals.Draft{
			OrgID: w.org.ID, SkillName: name, Finding: name, Type: proposals.Description, Reason: "because of " + name,
			Confidence: &[]float64{0.5, 0.2, 0.9}[i], ProposedBy: proposals.Contributors, Evidence: object{},
		})
		exec(`UPDATE proposals SET skill_name = $1 WHERE finding = $1`, name)
		at := micros(i)
		exec(`INSERT INTO incidents (id, org_id, rule_id, skill_id, skill_name, entry_id, version_id, version, good_version, evidence,
				commit_status, commit_detail, issue_status, issue_detail, tries, installations, opened_at)
			VALUES ($1, $2, 'r', 's', $3, 'e', 'v', '1.1.0', '1.0.0', '', 'none', '', 'none', '', 0, $4, $5)`,
			fmt.Sprint("incident", i), w.org.ID, name, []int{3, 1, 2}[i], at)
		exec(`INSERT INTO gates (id, org_id, entry_id, version_id, version, status, verdict, reason, policy, created_by, created_at, result)
			VALUES ($1, $2, $3, 'v', $4, 'decided', $5, '', '{}', $6, $7, '{}')`,
			fmt.Sprint("gate", i), w.org.ID, entry, []string{"3.0.0", "1.0.0", "2.0.0"}[i], []string{"block", "skipped", "inconclusive"}[i], user, at)
		exec(`INSERT INTO alert_rules (id, org_id, skill_id, type, threshold, sensitivity, channel, address, enabled, created_by, created_at, updated_at)
			VALUES ($1, $2, $3, 'no_data', 3, 'point', 'email', $4, $5, $6, $7, $7)`,
			fmt.Sprint("rule", i), w.org.ID, b.skillID(name), "ops@example.org", true, user, at)
		exec(`INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			fmt.Sprint("zz-user", i), w.org.ID, []string{"m@x.org", "a@x.org", "z@x.org"}[i], name, roles[name], at)
		exec(`INSERT INTO users (id, org_id, email, name, role, created_at, kind) VALUES ($1, $2, $1, $3, 'member', $4, 'service')`,
			fmt.Sprint("zz-service", i), w.org.ID, name, at)
		exec(`INSERT INTO teams (id, org_id, name, slug, description, created_by, created_at, updated_at) VALUES ($1, $2, $3, $3, '', $4, $5, $5)`,
			fmt.Sprint("team", i), w.org.ID, name, user, at)
		var used, expires any = micros([]int{3, 1, 2}[i]), micros([]int{3e6, 2e6, 1e6}[i])
		exec(`INSERT INTO api_keys (id, org_id, user_id, name, prefix, hash, created_at, last_used_at, expires_at)
			VALUES ($1, $2, $3, $4, 'p', $1, $5, $6, $7)`, fmt.Sprint("zz-key", i), w.org.ID, user, name, at, used, expires)
		exec(`INSERT INTO catalog_tokens (id, org_id, name, prefix, hash, created_by, created_at, expires_at) VALUES ($1, $2, $3, 'p', $1, $4, $5, $6)`,
			fmt.Sprint("zz-token", i), w.org.ID, name, user, at, expires)
		exec(`INSERT INTO scim_groups (id, org_id, name, name_key, role, created_at, updated_at) VALUES ($1, $2, $3, $3, $4, $5, $5)`,
			fmt.Sprint("group", i), w.org.ID, name, roles[name], at)
		exec(`INSERT INTO invitations (id, org_id, role, email, hash, created_at, expires_at) VALUES ($1, $2, $3, $4, $1, $5, $6)`,
			fmt.Sprint("invitation", i), w.org.ID, roles[name], name+"@x.org", at, expires)
		exec(`INSERT INTO repohost_connections (id, org_id, entry_id, entry_name, installation_id, repo_id, repo_full_name, repo_key,
				default_branch, skill_path, auto_publish, write_back_enabled, tag_pattern, created_by, created_at, updated_at, configured_at, held_until)
			VALUES ($1, $2, 'e', $3, 1, 1, $4, $4, 'main', '.', $5, $5, 'v*', $6, $7, $7, $7, 0)`,
			fmt.Sprint("connection", i), w.org.ID, []string{"1", "2", "3"}[i], "acme/"+name, false, user, at)
		exec(`INSERT INTO repohost_deliveries (id, provider, delivery_id, event, action, content_type, installation_id, repo_full_name, repo_key,
				body, status, attempts, detail, received_at)
			VALUES ($1, 'github', $1, $2, '', '', 1, $3, $3, $4, 'done', 1, '', $5)`,
			fmt.Sprint("delivery", i), []string{"3", "1", "2"}[i], "acme/"+name, []byte("{}"), at)
		b.post("/settings/webhooks", url.Values{"action": {"create"}, "url": {"https://" + name + ".example/x"}, "events": {"alert.fired"}}).want(http.StatusOK)
	}
	for i, name := range []string{"beta", "gamma", "alpha"} {
		exec(`INSERT INTO trusted_publishers (id, org_id, entry_id, provider, issuer, repository, repository_key, ref, workflow, environment,
				repository_id, owner_id, created_by, created_at, last_used_at)
			VALUES ($1, $2, $3, 'github', 'https://x', $4, $4, $5, '', '', '', '', $6, $7, $8)`,
			fmt.Sprint("publisher", i), w.org.ID, entry, "acme/"+name, []string{"3", "1", "2"}[i], user, micros(i), micros([]int{3, 1, 2}[i]))
	}
	return suite
}

// TestFilters: the runs of a suite are filtered by their state, and the history of alerts by
// event and skill, also in their files.
func TestFilters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Owner)
		source := b.upload("pdf", map[string]string{"SKILL.md": goodText})
		suite := b.newSuite("triggers", "extract tables from a pdf")
		run := b.run(suite, source, nil)
		for status, rows := range map[string]int{"": 1, "succeeded": 1, "failed": 0, "nonsense": 0, "' OR 1=1 --": 0} {
			p := b.get(suite + "?status=" + url.QueryEscape(status)).want(http.StatusOK)
			checkPage(t, p)
			if got := strings.Count(p.body, `<a href="`+run+`"`); got != rows {
				t.Errorf("%d runs with the state %q, want %d", got, status, rows)
			}
			file := b.get(suite + "/runs.csv?status=" + url.QueryEscape(status)).want(http.StatusOK)
			if got := strings.Count(file.body, "\n") - 1; got != rows {
				t.Errorf("%d runs with the state %q in the file, want %d", got, status, rows)
			}
		}
		b.api.Get("/api/v1/eval-suites/" + id(suite) + "/runs?status=nonsense").Want(http.StatusBadRequest)
		if got := len(b.api.Get("/api/v1/eval-suites/" + id(suite) + "/runs?status=failed").Want(http.StatusOK).List("runs")); got != 0 {
			t.Errorf("%d failed runs, want none", got)
		}

		user := w.Text(`SELECT MIN(id) FROM users`)
		if _, err := w.DB.Exec(t.Context(), `
			INSERT INTO alert_rules (id, org_id, type, threshold, sensitivity, channel, address, enabled, created_by, created_at, updated_at)
			VALUES ('rule', $1, 'no_data', 3, 'point', 'email', 'ops@example.org', $2, $3, 1, 1)`, w.org.ID, false, user); err != nil {
			t.Fatal(err)
		}
		for i, row := range [][2]string{{"alpha", "firing"}, {"alpha", "resolved"}, {"100%", "firing"}} {
			if _, err := w.DB.Exec(t.Context(), `
				INSERT INTO alert_events (id, org_id, rule_id, skill_id, skill_name, type, transition, threshold, graded_sessions,
					window_from, window_to, sequence, episode_id, firing_since, occurred_at)
				VALUES ($1, $2, 'rule', 's', $3, 'no_data', $4, 3, 5, 0, 0, 1, '', 0, 1)`, fmt.Sprint("e", i), w.org.ID, row[0], row[1]); err != nil {
				t.Fatal(err)
			}
		}
		for query, rows := range map[string]int{
			"": 3, "event=firing": 2, "event=resolved": 1, "event=reminder": 0, "event=x": 0, "skill=ALPH": 2, "skill=%25": 1, "skill=_": 0,
			"skill=alpha&event=firing": 1,
		} {
			p := b.get("/alerts?" + query).want(http.StatusOK)
			checkPage(t, p)
			if got := strings.Count(p.body, `<td data-label="Time"><a href="/alerts/rule">`); got != rows {
				t.Errorf("%d events of %q, want %d", got, query, rows)
			}
			if got := strings.Count(b.get("/alerts/history.csv?"+query).want(http.StatusOK).body, "\n") - 1; got != rows {
				t.Errorf("%d events of %q in the file, want %d", got, query, rows)
			}
		}
	})
}

// TestExports: a file has the rows of its page, with its filters, and only what the
// caller may see.
func TestExports(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Owner)
		hostile := `=HYPERLINK("http://x.example","a")`
		b.sessions(hostile, time.Now(), grades(10, 5)...)
		b.sessions("alpha", time.Now(), grades(3, 0)...)
		b.spend("alpha")
		entry := b.push("alpha", "1.0.0", map[string]string{"SKILL.md": skillText("alpha", "Does alpha", "Do it.")})
		source := b.upload("pdf", map[string]string{"SKILL.md": goodText})
		suite := b.newSuite("triggers", "extract tables from a pdf", "!bake a cake", "bake bread")
		run := b.run(suite, source, nil)
		read := func(path string) [][]string {
			t.Helper()
			p := b.get(path).want(http.StatusOK)
			if got := p.Header.Get("Content-Type"); got != "text/csv; charset=utf-8" {
				t.Errorf("%s is %s", path, got)
			}
			if got := p.Header.Get("Content-Disposition"); !strings.HasPrefix(got, `attachment; filename="`) || !strings.HasSuffix(got, `.csv"`) {
				t.Errorf("%s: %s", path, got)
			}
			rows, err := csv.NewReader(strings.NewReader(p.body)).ReadAll()
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			return rows
		}
		column := func(rows [][]string, name string) (all []string) {
			t.Helper()
			i := slices.Index(rows[0], name)
			for _, row := range rows[1:] {
				all = append(all, row[i])
			}
			return all
		}
		for path, want := range map[string]struct {
			column string
			values []string
		}{
			"/skills.csv?sort=-unique_sessions&q=l":       {"name", []string{"'" + hostile, "alpha"}},
			"/skills.csv?sort=unique_sessions&q=l&page=7": {"name", []string{"alpha", "'" + hostile}},
			"/skills.csv?q=alpha":                         {"status", []string{"unknown"}},
			"/skills.csv?q=HYPER":                         {"pass_rate", []string{"0.5"}},
			"/registry.csv":                               {"pass_rate", []string{""}},
			"/registry.csv?q=none":                        {"name", nil},
			"/registry/" + entry + "/installations.csv":   {"user", nil},
			"/costs.csv?sort=name":                        {"skill", []string{"alpha", "bare", ""}},
			"/costs.csv?sort=name&q=bare":                 {"cost_usd", []string{""}},
			"/alerts/history.csv":                         {"event", nil},
			suite + "/runs.csv":                           {"pass_rate", []string{"0.6666666666666666"}},
			suite + "/runs.csv?sort=-score":               {"score", []string{"0.6666666666666666"}},
			run + "/cases.csv":                            {"verdict", []string{"pass", "pass", "fail"}},
		} {
			if diff := cmp.Diff(want.values, column(read(path), want.column)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
		for path, want := range map[string]int{"/sessions.csv?skill=alpha": 1, "/settings/members.csv": 1} {
			if got := len(read(path)) - 1; got < want {
				t.Errorf("%s has %d rows, want at least %d", path, got, want)
			}
		}
		if got := column(read("/settings/audit.csv?action=suites."), "action"); len(got) > 0 && !strings.HasPrefix(got[0], "suites.") {
			t.Errorf("audit log: %v", got)
		}
		if got := len(read("/settings/audit.csv")); got < 2 {
			t.Error("an empty audit log")
		}
		// The page links to its file, with its filters.
		if got := b.get("/skills?q=alpha&sort=-name&page=1").href("Export CSV"); got != "/skills.csv?q=alpha&sort=-name" {
			t.Errorf("the link is %q", got)
		}
		b.get("/sessions.csv?since=nonsense").want(http.StatusBadRequest)
		b.get("/registry/none/installations.csv").want(http.StatusNotFound)
		w.as(access.Viewer).get("/settings/audit.csv").want(http.StatusForbidden)
		other := w.otherOrg(access.Team)
		for _, path := range []string{"/skills.csv", "/sessions.csv", "/registry.csv", "/costs.csv", "/alerts/history.csv", "/settings/members.csv", "/settings/audit.csv"} {
			if p := other.get(path).want(http.StatusOK); strings.Contains(p.body, "alpha") || strings.Contains(p.body, "triggers") {
				t.Errorf("%s tells another organisation:\n%s", path, p.body)
			}
		}
		for _, path := range []string{suite + "/runs.csv", run + "/cases.csv", "/registry/" + entry + "/installations.csv"} {
			other.get(path).want(http.StatusNotFound)
		}
	})
}
