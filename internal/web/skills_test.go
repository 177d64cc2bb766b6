package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

const day = 24 * time.Hour

// grades are n grades, of which bad are 0.
func grades(n, bad int) []float64 {
	all := make([]float64, n)
	for i := range all {
		if i >= bad {
			all[i] = 1
		}
	}
	return all
}

// fill makes a healthy, a troubled and a broken skill, and one that is new.
func fill(b *browser) {
	b.w.T.Helper()
	b.sessions("healthy-one", time.Now().Add(-2*day), grades(20, 0)...)
	b.sessions("worrying-one", time.Now().Add(-2*day), grades(20, 6)...)
	b.sessions("broken-one", time.Now().Add(-2*day), grades(20, 15)...)
	b.sessions("new-one", time.Now(), 1)
}

func TestHome(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Owner)
		b.get("/").want(http.StatusOK).wantText("No skills yet", "The tutorial")
		for path, want := range map[string][]string{
			"/": {"whetstone init my-skill", "whetstone push my-skill", "whetstone serve --demo --data demo --addr 127.0.0.1:8081"}, "/skills": nil, "/sessions": nil, "/costs": nil,
		} {
			want = append([]string{"whetstone login --server " + w.URL, "whetstone import --grade"}, want...)
			var got []string
			for _, c := range b.get(path).want(http.StatusOK).all("div.copy") {
				got = append(got, textOf(c.FirstChild.NextSibling))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the commands of %s (-want +got):\n%s", path, diff)
			}
		}
		b.sessions("new-one", time.Now().Add(-40*day), 1)
		b.get("/").want(http.StatusOK).wantText("No session of the last 30 days is graded, so no skill has a pass rate.")
		b.sessions("new-one", time.Now(), 1, 0)
		b.get("/").want(http.StatusOK).
			wantText("A skill gets a status at 5 graded sessions in 30 days. new-one is closest: 2 of 5 graded, 3 more to go.").
			wantNoText("No session of the last 30 days")
		fill(b)
		b.api.Post("/api/v1/alerts", object{
			"type": "pass_rate_below", "threshold": 0.8, "channel": "webhook", "config": object{"webhook_url": "https://example.org/hook"},
		}).Want(http.StatusCreated)
		p := b.get("/").want(http.StatusOK)
		tiles := p.texts("a.tile")
		if diff := cmp.Diff([]string{"1 ■ critical", "1 ▲ warning", "1 ● healthy", "1 ○ unknown"}, tiles[:4]); diff != "" {
			t.Errorf("counts by status (-want +got):\n%s", diff)
		}
		var trouble []string
		for _, row := range p.texts("th.text") {
			trouble = append(trouble, strings.Fields(row)[0])
		}
		if diff := cmp.Diff([]string{"broken-one", "worrying-one"}, trouble); diff != "" {
			t.Errorf("in trouble, the worst first (-want +got):\n%s", diff)
		}
		p.wantText("Pass rate, 30 days, all versions", "25 % 11–47 % of 20, reported", "Steady at 70 %", "All skills, 30 days",
			"broken-one and 3 other skills are new", "The queue is empty.")
	})
}

func TestSkills(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Viewer)
		b.get("/skills").want(http.StatusOK).wantText("No skills yet")
		fill(w.as(access.Member))
		names := func(query string) []string {
			rows := []string{}
			for _, row := range b.get("/skills" + query).want(http.StatusOK).texts("tr") {
				rows = append(rows, strings.Fields(row)[0])
			}
			return rows[min(1, len(rows)):]
		}
		for query, want := range map[string][]string{
			"":                                 {"broken-one", "worrying-one", "new-one", "healthy-one"}, // trouble first
			"?sort=name":                       {"broken-one", "healthy-one", "new-one", "worrying-one"},
			"?sort=-name":                      {"worrying-one", "new-one", "healthy-one", "broken-one"},
			"?sort=pass_rate&status=critical":  {"broken-one"},
			"?sort=status":                     {"broken-one", "worrying-one", "new-one", "healthy-one"},
			"?q=HEALTHY":                       {"healthy-one"},
			"?q=none":                          {},
			"?sort=nonsense&page=nonsense":     {"broken-one", "worrying-one", "new-one", "healthy-one"},
			"?sort=-unique_sessions&q=new-one": {"new-one"},
		} {
			if diff := cmp.Diff(want, names(query)); diff != "" {
				t.Errorf("/skills%s (-want +got):\n%s", query, diff)
			}
		}
		b.get("/skills?q=none").wantText("No matching skills")
		b.get("/skills?page=99").wantLocation("/skills?page=1")
		if sorted := attr(b.get("/skills?sort=-name").all("th")[0], "aria-sort"); sorted != "descending" {
			t.Errorf("the column is %q", sorted)
		}
	})
}

func TestSkillPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	for n := range 60 {
		b.sessions(fmt.Sprintf("skill-%02d", n), time.Now(), 1)
	}
	if got := len(b.get("/skills").texts("tr")); got != 51 {
		t.Errorf("%d rows on the first page, want 50 and the head", got)
	}
	p := b.get("/skills?q=skill&page=2").wantText("51–60 of 60", "skill-59")
	if i := slices.IndexFunc(p.all("a.button"), func(n *html.Node) bool { return attr(n, "rel") == "prev" }); i < 0 ||
		attr(p.all("a.button")[i], "href") != "/skills?page=1&q=skill" {
		t.Error("no way back that keeps the filter")
	}
}

func TestSkill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Owner)
		fill(b)
		p := b.get("/skills/worrying-one").want(http.StatusOK)
		p.wantText("70 %", "48–85 % from 20 graded sessions", "Trigger rate, 30 days 100 %", "not published")
		b.get("/skills/worrying-one?tab=versions").wantText("Not in the registry")
		checkPage(t, b.get("/skills/worrying-one?tab=failures").wantText("Please use worrying-one", "1 of 1"))
		id := apptest.Text(b.api.Get("/v1/skills/worrying-one").Want(http.StatusOK).Object(), "skill", "skill_id")
		b.get("/skills/" + id).want(http.StatusOK).wantText("worrying-one")
		b.get("/skills/" + id + "?days=30").want(http.StatusOK)
		charts := p.all("svg")
		chart := charts[slices.IndexFunc(charts, func(n *html.Node) bool {
			return strings.HasPrefix(attr(n, "aria-label"), "7-day pass rate")
		})]
		if label := strings.Join(strings.Fields(attr(chart, "aria-label")), " "); !strings.Contains(label, "it went from 70 % to 70 %") {
			t.Errorf("the chart says %q", label)
		}
		b.get("/skills/new-one").wantText("unknown")
		b.get("/skills/new-one?tab=failures").wantText("No missed or failed prompts are known")
	})
}

// TestSkillHub: the page of a skill says in a sentence what happened, and leads to
// everything about it.
func TestSkillHub(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		b := w.as(access.Owner)
		entry := b.push("pdf", "1.3.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "x")})
		b.sessions("good", time.Now(), grades(5, 0)...)
		b.get("/skills/good").want(http.StatusOK).wantNoText("Failed sessions")
		b.sessions("pdf", time.Now(), grades(25, 1)...)
		b.push("pdf", "1.4.0", map[string]string{"SKILL.md": skillText("pdf", "Reads", "y")})
		b.sessions("pdf", time.Now(), grades(20, 16)...)
		skill := b.skillID("pdf")
		b.api.Post("/api/v1/alerts", object{
			"type": "cost_above", "threshold": 2, "skill_id": skill, "channel": "webhook", "config": object{"webhook_url": "https://example.org/hook"},
		}).Want(http.StatusCreated)

		p := b.get("/skills/pdf").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("Fell from 96 % to 20 % with 1.4.0 , just now (25 graded sessions before, 20 after)",
			"Roll back to 1.3.0 96 % of 25 graded sessions, all time")
		failed := "/sessions?outcome=fail&skill=" + skill + "&version=1.4.0"
		for text, want := range map[string]string{
			"Failed sessions of 1.4.0":    failed,
			"Roll back to 1.3.0":          "/registry/" + entry + "?reason=Fell+from+96%E2%80%AF%25+to+20%E2%80%AF%25+with+1.4.0&rollback=1.3.0#rollback",
			"pdf 1.4.0":                   "/registry/" + entry,
			"Changes of 1.4.0":            "/registry/" + entry + "/versions/1.4.0?from=1.3.0",
			"list them":                   "/sessions?skill=" + skill,
			"Versions":                    "/skills/" + skill + "?tab=versions",
			"New alert":                   "/alerts/new?skill=" + skill,
			"a use costs more than $2.00": b.onlyAlert(),
			"0 people installed it":       "/registry/" + entry + "#installations",
			"diff of 1.4.0 since 1.3.0":   "/registry/" + entry + "/versions/1.4.0?from=1.3.0",
		} {
			got := p.href(text)
			if strings.HasPrefix(text, "diff") {
				got = b.get("/skills/pdf?tab=versions").href(text)
			}
			if got != want {
				t.Errorf("%q leads to %q, want %q", text, got, want)
			}
		}
		b.get(failed).want(http.StatusOK).wantText("fail")
		form := b.get("/registry/" + entry + "?rollback=1.3.0&reason=Fell").want(http.StatusOK)
		if _, open := lookup(form.all("details#rollback")[0], "open"); !open {
			t.Error("the form of the rollback is closed")
		}
		if got := attr(form.all("input#reason")[0], "value"); got != "Fell" {
			t.Errorf("the reason is %q", got)
		}
		// A version that is not there is not chosen, nor is its reason.
		form = b.get("/registry/" + entry + "?rollback=9.9.9&reason=Because").want(http.StatusOK)
		if got := attr(form.all("input#reason")[0], "value"); got != "" {
			t.Errorf("the reason is %q", got)
		}
		viewer := w.as(access.Viewer).get("/skills/pdf").want(http.StatusOK)
		viewer.wantText("Fell from 96 % to 20 % with 1.4.0").wantNoText("Roll back to", "New alert", "Add tests", "Manage")
		// The mean of all versions, 62 %, is a warning; the current one is critical.
		b.sessions("worrying-one", time.Now(), grades(20, 8)...)
		const current = "current version 1.4.0: 20 % of 20 ■ critical"
		p.wantText("▲ warning " + current)
		b.get("/skills").wantText("1.4.0 20 % of 20 ■ critical")
		home := b.get("/").wantText("Fell from 96 % to 20 % with 1.4.0", current, "Roll back pdf", "skill uses, 30 days").
			wantNoText("No publish has failed")
		if rows := home.texts("th.text"); len(rows) != 2 || !strings.HasPrefix(rows[0], "pdf ▲ warning") {
			t.Errorf("in trouble are %q, want the one with the worst version first", rows)
		}

		b.post("/registry/"+entry+"/rollback", url.Values{"version": {"1.3.0"}, "reason": {"worse"}}).want(http.StatusSeeOther)
		b.get("/skills/pdf").want(http.StatusOK).wantText("; 1.3.0 is current since just now")
	})
}

// lookup returns an attribute, and whether it is there.
func lookup(n *html.Node, name string) (string, bool) {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return "", false
	}
	return n.Attr[i].Val, true
}

// TestSkillOfOthers: skills of other organisations are not visible.
func TestSkillOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	b.sessions("secret", time.Now(), 1)
	stranger := w.otherOrg(access.Team)
	stranger.get("/skills").wantText("No skills yet").wantNoText("secret")
	stranger.get("/skills/secret").want(http.StatusNotFound)
	stranger.get("/").wantNoText("secret")
}

// TestHostileNames: a text that would run if it were not escaped.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "sqlite")
	b := w.as(access.Member)
	const name = `"><script>alert(1)</script><img src=x onerror=alert(2)>'{{.}}`
	b.sessions(name, time.Now(), 0, 0, 0, 0, 0)
	for _, path := range []string{"/", "/skills"} {
		p := b.get(path).wantText(name)
		checkPage(t, p)
		if len(p.all("img")) > 0 {
			t.Errorf("%s: the name became an element", path)
		}
	}
	for _, a := range b.get("/skills").all("a") {
		if href := attr(a, "href"); textOf(a) == name {
			checkPage(t, b.get(href).want(http.StatusOK).wantText(name))
		}
	}
}
