package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// traced reports a session with one turn: a prompt, a skill that was activated, a
// tool call that worked and one that failed.
func (b *browser) traced(session, skill string, at time.Time) {
	b.w.T.Helper()
	when := func(seconds int) string { return at.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339) }
	call := func(id string, seconds int, ok bool) object {
		return object{
			"tool_call_id": session + id, "session_id": session, "platform": "claude_code", "occurred_at": when(seconds), "tool_name": "Bash",
			"duration_ms": 10_000, "success": ok,
		}
	}
	b.api.Post("/api/v1/push", object{"canonical": object{
		"sessions": []object{{"session_id": session, "platform": "claude_code", "started_at": when(0), "ended_at": when(100)}},
		"prompts":  []object{{"prompt_id": session + "p", "session_id": session, "occurred_at": when(0), "prompt_text": "secret words"}},
		"skill_invocations": []object{{
			"skill_invocation_id": session + "i", "session_id": session, "occurred_at": when(5), "skill_name": skill, "triggered": true,
		}},
		"tool_calls": []object{call("a", 20, true), call("b", 90, false)},
		"model_requests": []object{{
			"session_id": session, "occurred_at": when(10), "request_id": session + "r", "source_prompt_id": session + "p",
			"model": "claude-sonnet-4-5", "input_tokens": 1000, "output_tokens": 100,
		}},
		"grading_results": []object{{
			"grading_id": session + "g", "session_id": session, "skill_name": skill, "graded_at": when(3600), "pass_rate": 0.2,
		}},
	}}).Want(http.StatusCreated)
}

func TestSessions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		viewer, member := w.as(access.Viewer), w.as(access.Member)
		checkPage(t, viewer.get("/sessions").want(http.StatusOK).wantText("No sessions yet"))
		at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		member.traced("first", "pdf", at)
		for i := range 55 {
			member.traced(fmt.Sprint("s-", i), "zip", at.Add(time.Duration(i+1)*time.Hour))
		}
		p := viewer.get("/sessions").want(http.StatusOK)
		checkPage(t, p)
		if n := len(p.rows()); n != 50 {
			t.Errorf("%d sessions on the first page, want 50", n)
		}
		older := viewer.get(p.href("Older")).want(http.StatusOK)
		checkPage(t, older)
		if n := len(older.rows()); n != 6 {
			t.Errorf("%d sessions on the second page, want 6", n)
		}
		const oldest = "2026-03-04 prompt not shared ■ fail 20 % reported pdf 2026-03-04 claude-code 1 min 40 s 1 of 2 $0.0045"
		if last := older.rows()[5]; last != oldest {
			t.Errorf("the oldest session is %q", last)
		}
		for query, want := range map[string]int{
			"skill=pdf": 1, "skill=pdf&outcome=fail": 1, "skill=pdf&outcome=pass": 0, "outcome=tool_errors&until=2026-03-04T05:30:00Z": 1,
			"outcome=graded&since=2026-03-04&until=2026-03-05": 19, "outcome=ungraded": 0, "agent=codex": 0, "user=me": 0,
			"agent=claude-code&skill=pdf": 1, "skill=pdf&outcome=missed": 0,
		} {
			p := viewer.get("/sessions?" + query).want(http.StatusOK)
			if n := len(p.rows()); n != want {
				t.Errorf("%s: %d sessions, want %d", query, n, want)
			}
			if want == 0 {
				p.wantText("No matching sessions")
			}
		}
		named := viewer.get("/sessions?skill=pdf&outcome=fail&version=1.4.0").want(http.StatusOK).
			wantText("Failed sessions of pdf 1.4.0")
		checkPage(t, named)
		if got := named.href("version 1.4.0 × , remove"); got != "/sessions?outcome=fail&skill=pdf" {
			t.Errorf("without the version it is %q", got)
		}
		// A link has the id of the skill, the page its name.
		id := member.skillID("zip")
		p = viewer.get("/sessions?skill=" + id).want(http.StatusOK).wantText("Sessions of zip").wantNoText(id)
		if got := attr(p.all("input#skill")[0], "value"); got != "zip" {
			t.Errorf("the filter shows %q", got)
		}
		member.sessions("told", time.Now(), 0)
		if row := viewer.get("/sessions?skill=told").rows()[0]; !strings.HasPrefix(row, "Please use told ■ fail") {
			t.Errorf("the session begins with %q, want its prompt", row)
		}
		viewer.get("/sessions?since=x").want(http.StatusBadRequest).wantText("There is a problem")
		viewer.get("/sessions?cursor=x").want(http.StatusBadRequest)
		viewer.get("/sessions?skill=nothing").want(http.StatusNotFound)
		viewer.get("/sessions?user=" + member.api.User.ID).want(http.StatusForbidden)
		w.otherOrg(access.Team).get("/sessions").want(http.StatusOK).wantText("No sessions yet")
	})
}

// TestRareSessions: a page that no index has is searched for in some sessions at a
// time, and says so.
func TestRareSessions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		member := w.as(access.Member)
		at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		reported := []object{{"session_id": "rare", "platform": "codex", "started_at": at.Format(time.RFC3339)}}
		for i := range 500 {
			when := at.Add(time.Duration(i+1) * time.Second).Format(time.RFC3339)
			reported = append(reported, object{"session_id": fmt.Sprint("s", i), "platform": "claude_code", "started_at": when})
		}
		member.api.Post("/api/v1/push", object{"canonical": object{"sessions": reported}}).Want(http.StatusCreated)
		p := member.get("/sessions?user=me&agent=codex").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("No match among the newest sessions")
		older := member.get(p.href("Search older sessions")).want(http.StatusOK)
		if older.href("2026-03-04") != "/sessions/rare" || older.href("Older") != "" {
			t.Errorf("the second page has %v", older.rows())
		}
	})
}

func TestSession(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		viewer, member := w.as(access.Viewer), w.as(access.Member)
		member.traced("first", "pdf", time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
		p := viewer.get("/sessions/first").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("claude-code, 2026-03-04 05:06 UTC", "Grade 20 % basis: reported", "Turns 1", "Tool calls 2 1 error", "Cost $0.0045",
			"Lasted 1 min 40 s", "pdf activated", "Turn 1").wantNoText("secret words", "Make a test case")
		if diff := cmp.Diff([]string{
			"+0:00 prompt", "+0:05 activation pdf activated", "+0:10 response claude-sonnet-4-5 1 100 tokens $0.0045",
			"+0:20 tool Bash 10.0 s", "+1:30 tool Bash failed 10.0 s", "+1:00:00 grade pdf graded: failed",
		}, p.texts("li.step")); diff != "" {
			t.Errorf("timeline (-want +got):\n%s", diff)
		}
		viewer.get("/sessions/other").want(http.StatusNotFound)
		viewer.get("/sessions/first?cursor=x").want(http.StatusBadRequest)
		w.otherOrg(access.Team).get("/sessions/first").want(http.StatusNotFound)
	})
}

// TestLongSession: a session of 5,000 records opens with a part of its timeline, of
// less than 200 kB, and the rest follows.
func TestLongSession(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		member := w.as(access.Member)
		at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
		var prompts, calls []object
		for i := range 2000 {
			when := at.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
			prompts = append(prompts, object{"prompt_id": fmt.Sprint("p", i), "session_id": "long", "occurred_at": when, "prompt_text": "x"})
			calls = append(calls, object{"tool_call_id": fmt.Sprint("a", i), "session_id": "long", "occurred_at": when, "tool_name": "Bash"})
			if i < 1000 {
				calls = append(calls, object{
					"tool_call_id": fmt.Sprint("b", i), "session_id": "long", "occurred_at": when, "tool_name": strings.Repeat("n", 128),
					"duration_ms": 30_000,
				})
			}
		}
		member.api.Post("/api/v1/push", object{"canonical": object{"prompts": prompts, "tool_calls": calls}}).Want(http.StatusCreated)
		steps, path := 0, "/sessions/long"
		for pages := 0; path != ""; pages++ {
			p := member.get(path).want(http.StatusOK)
			if len(p.body) > 200_000 {
				t.Fatalf("page %d has %d bytes", pages, len(p.body))
			}
			steps += len(p.all("li.step"))
			path = p.href("Show more")
			if path == "" {
				p.wantText("Turn 2000")
			}
			if pages == 0 {
				checkPage(t, p)
			}
		}
		if steps != 5000 {
			t.Errorf("%d events, want 5000", steps)
		}
	})
}

// TestCaseOfSession: a session becomes a case of any suite, of a new one, or a draft, and
// the message leads to it.
func TestCaseOfSession(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		member := w.as(access.Member)
		member.traced("first", "pdf", time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
		p := member.get("/sessions/first").want(http.StatusOK)
		checkPage(t, p)
		p.wantText("Make a test case of this session", "This session's text isn't stored", "a new suite")
		send := func(target, name, query string) *page {
			t.Helper()
			return member.post("/sessions/first/cases", url.Values{"query": {query}, "target": {target}, "name": {name}})
		}
		send("elsewhere", "", "q").want(http.StatusBadRequest).wantText("Choose where the case goes")
		send("new", " ", "q").want(http.StatusBadRequest).wantText("Enter a name for the new suite")
		send("new", "pdf", " ").want(http.StatusBadRequest).wantText("Type the prompt")
		send("new", "pdf", strings.Repeat("q", 4001)).want(http.StatusBadRequest)

		send("new", "pdf", "Fill the form").wantLocation("/sessions/first")
		p = member.get("/sessions/first").wantText("The case was added to pdf.", "suite pdf")
		first := p.href("Open the case")
		if form := member.get(first).want(http.StatusOK); !strings.Contains(form.body, "Fill the form") {
			t.Errorf("%s is another case", first)
		}
		suite := strings.Split(first, "/")[2]
		// The suite is the default now, and has the case once.
		if !strings.Contains(p.body, `<option value="`+suite+`" selected>`) {
			t.Error("the suite of the skill is not chosen")
		}
		send(suite, "", "Fill the form").wantLocation("/sessions/first")
		send(suite, "", "Read it").wantLocation("/sessions/first")
		if second := member.get("/sessions/first").href("Open the case"); second != "/suites/"+suite+"/cases/1" {
			t.Errorf("the second case is at %s", second)
		}

		source := id(member.waiting("pdf", "read this file"))
		send(source, "", "Fill the form").wantLocation("/sessions/first")
		if drafts := member.get("/sessions/first").wantText("The case is a draft.").href("Add the drafts to a suite"); drafts != "/sources/"+source+"#drafts" {
			t.Errorf("the drafts are at %s", drafts)
		}
		w.as(access.Viewer).post("/sessions/first/cases", url.Values{"query": {"q"}, "target": {suite}}).want(http.StatusForbidden)
		w.otherOrg(access.Team).post("/sessions/first/cases", url.Values{"query": {"q"}, "target": {suite}}).want(http.StatusNotFound)
	})
}

// href is the address of the link with a text, "" without one.
func (p *page) href(text string) string {
	for _, a := range p.all("a") {
		if textOf(a) == text {
			return attr(a, "href")
		}
	}
	return ""
}
