package mcpserver_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// toolNames lists the tools that a client is shown.
func toolNames(h host) (all []string) {
	h.t.Helper()
	list, err := h.ListTools(h.t.Context(), nil)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, tool := range list.Tools {
		all = append(all, tool.Name)
		if tool.Description == "" || tool.InputSchema == nil || tool.OutputSchema == nil || tool.Annotations == nil ||
			tool.Annotations.ReadOnlyHint != (tool.Name != "report_skill_outcome") {
			h.t.Errorf("tool %+v", tool)
		}
	}
	return all
}

func TestTools(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		id := ada.Made("pdf-tables", "1.0.0", skill(t, "pdf-tables", "Reads tables.", "references/a.md", "More.", "x.bin", "\xff"), public)
		ada.Made("secret-tables", "1.0.0", skill(t, "secret-tables", "Reads secret tables."))
		bob.Made("pdf-forms", "1", skill(t, "pdf-forms", "Fills forms."), public)
		h := connect(t, w, "", "")
		if got := toolNames(h); !slices.Equal(got, []string{"get_skill", "search_skills"}) {
			t.Errorf("tools without a key: %v", got)
		}
		search := func(h host, query string, limit int) (found []string) {
			t.Helper()
			out, text, failed := h.call("search_skills", object{"query": query, "limit": limit})
			if failed {
				t.Fatal(text)
			}
			for _, s := range apptest.List(t, out, "skills") {
				found = append(found, apptest.Text(s, "publisher")+"/"+apptest.Text(s, "name"))
			}
			return found
		}
		for _, c := range []struct {
			path, key, query string
			limit            int
			want             string
		}{
			{"", "", "pdf", 0, "[acme/pdf-tables other/pdf-forms]"},
			{"", "", "tables READS", 5, "[acme/pdf-tables]"},
			{"", "", "", 1, "[other/pdf-forms]"},
			{"", "", "nothing", 0, "[]"},
			{"", ada.Key, "tables", 0, "[acme/pdf-tables acme/secret-tables]"},
			{base("acme", token(ada)), "", "tables", 0, "[acme/pdf-tables acme/secret-tables]"},
			{base("acme"), bob.Key, "tables", 0, "[acme/pdf-tables]"},
			{base("other"), ada.Key, "tables", 0, "[]"},
		} {
			got := search(connect(t, w, c.path, c.key), c.query, c.limit)
			slices.Sort(got)
			if fmt.Sprint(got) != c.want {
				t.Errorf("%s, %q: %v, want %s", c.path, c.query, got, c.want)
			}
		}
		for _, limit := range []int{-1, 51} {
			if _, _, failed := h.call("search_skills", object{"query": "x", "limit": limit}); !failed {
				t.Errorf("limit %d is accepted", limit)
			}
		}
		ada.Pushed(id, "2.0.0", skill(t, "pdf-tables", "Reads more tables."))
		for _, c := range []struct {
			in   object
			want string
		}{
			{object{"name": "pdf-tables"}, "Reads more tables."},
			{object{"name": "acme/pdf-tables", "version": "1.0.0"}, "Reads tables."},
			{object{"name": "pdf-tables", "version": "1.0.0", "path": "references/a.md"}, "More."},
		} {
			out, text, failed := h.call("get_skill", c.in)
			if failed || !strings.Contains(apptest.Text(out, "text"), c.want) || !strings.Contains(text, c.want) {
				t.Errorf("%v: %v %s", c.in, out, text)
			}
		}
		out, _, _ := h.call("get_skill", object{"name": "pdf-tables", "version": "1.0.0"})
		if files := apptest.List(t, out, "files"); len(files) != 3 || apptest.Text(out, "uri") != "skill://acme/v/1.0.0/pdf-tables/SKILL.md" {
			t.Errorf("get_skill: %v", out)
		}
		for _, in := range []object{
			{"name": "secret-tables"},
			{"name": "acme/secret-tables"},
			{"name": "pdf-tables", "version": "3"},
			{"name": "x"},
			{"name": ""},
			{"name": "pdf-tables", "path": "../x"},
			{"name": "pdf-tables", "version": "1.0.0", "path": "x.bin"},
			{"name": "pdf-tables", "version": "1\x00"},
			{"name": "a\x00/pdf-tables"},
			{"name": "acme/../pdf-tables"},
		} {
			if out, text, failed := h.call("get_skill", in); !failed || strings.Contains(text, "secret tables") || strings.Contains(text, "nternal") {
				t.Errorf("%v: %v %s", in, out, text)
			}
		}
	})
}

// outcomes are the grades of a session, newest last: "skill rate basis reason".
func outcomes(c *registrytest.Client, session string) (all []string) {
	c.T.Helper()
	of := c.Get("/v1/sessions/" + session).Want(http.StatusOK).Field("session")
	for _, g := range apptest.List(c.T, of, "grades") {
		all = append(all, fmt.Sprintf("%v %v %v %v", g["skill"], g["pass_rate"], g["basis"], g["reason"]))
	}
	return all
}

func TestReportOutcome(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		ada.Made("pdf", "1.0.0", skill(t, "pdf", "Reads."), public)
		ada.Made("hidden", "1.0.0", skill(t, "hidden", "Reads."))
		h := connect(t, w, base("acme"), ada.Key)
		if got := toolNames(h); !slices.Contains(got, "report_skill_outcome") {
			t.Errorf("tools: %v", got)
		}
		out, text, failed := h.call("report_skill_outcome", object{
			"skill": "pdf", "session": "s1", "passed": false,
			"note": "<script>alert(1)</script> lost a column; key ghp_" + strings.Repeat("a1B2", 9),
		})
		if failed || out["basis"] != "pushed" || out["pass_rate"] != 0.0 {
			t.Fatalf("%v %s", out, text)
		}
		got := outcomes(ada, "s1")
		if len(got) != 1 || !strings.Contains(got[0], "pdf 0 pushed") || !strings.Contains(got[0], "[redacted:") || strings.Contains(got[0], "ghp_") {
			t.Errorf("grades: %v", got)
		}
		// The same session and skill again replaces it; a person outweighs it.
		h.call("report_skill_outcome", object{"skill": "pdf", "session": "s1", "passed": true})
		if got := outcomes(ada, "s1"); len(got) != 1 || !strings.HasPrefix(got[0], "pdf 1 pushed") {
			t.Errorf("grades: %v", got)
		}
		detail := ada.Get("/v1/skills/pdf").Want(http.StatusOK).Field("skill")
		if detail["pass_rate"] != 1.0 || detail["graded_sessions"] != 1.0 && detail["graded_sessions"] != nil || detail["pass_rate_basis"] != "pushed" {
			t.Errorf("skill %v", detail)
		}
		ada.Post("/v1/sessions/s1/grades", object{"skill": "pdf", "verdict": "fail"}).Want(http.StatusCreated)
		h.call("report_skill_outcome", object{"skill": "pdf", "session": "s1", "passed": true})
		if detail := ada.Get("/v1/skills/pdf").Want(http.StatusOK).Field("skill"); detail["pass_rate"] != 0.0 || detail["pass_rate_basis"] != "person" {
			t.Errorf("a person's grade is outweighed: %v", detail)
		}
		// It is in the audit log like a person's, without the note.
		if n := w.Count(`audit_entries WHERE action = 'grades.session.grade'`); n != 4 {
			t.Errorf("%d entries of the audit log", n)
		}
		if n := w.Count(`audit_entries WHERE detail LIKE '%column%'`); n != 0 {
			t.Errorf("the note is in the audit log")
		}

		reader := w.WithKey(ada.Org, ada.User, access.Read)
		for name, at := range map[string]host{
			"token": connect(t, w, base("acme", token(ada)), ""), "token in a header": connect(t, w, base("acme"), token(ada)),
			"nobody": connect(t, w, base("acme"), ""), "reader": connect(t, w, base("acme"), reader.Key),
			"of another organisation, of a private skill": connect(t, w, base("acme"), bob.Key),
		} {
			if slices.Contains(toolNames(at), "report_skill_outcome") != strings.HasPrefix(name, "of another") {
				t.Errorf("%s: tools %v", name, toolNames(at))
			}
			skill := "pdf"
			if strings.HasPrefix(name, "of another") {
				skill = "hidden"
			}
			before := w.Count(`agent_sessions`)
			if out, text, failed := at.call("report_skill_outcome", object{"skill": skill, "session": "s2", "passed": true}); !failed {
				t.Errorf("%s may report: %v %s", name, out, text)
			}
			if after := w.Count(`agent_sessions`); after != before {
				t.Errorf("%s made a session", name)
			}
		}
		for _, in := range []object{
			{"skill": "nothing", "session": "s", "passed": true},
			{"skill": "pdf", "session": "", "passed": true},
			{"skill": "pdf", "session": "a b", "passed": true},
			{"skill": "pdf", "session": strings.Repeat("s", 201), "passed": true},
			{"skill": "pdf", "session": "s", "passed": true, "note": strings.Repeat("x", 2001)},
			{"skill": "pdf", "session": "s", "passed": true, "note": "\x00"},
			{"skill": "pdf", "session": "s", "passed": "yes"},
			{"skill": "pdf", "session": "s"},
			{"skill": "pdf", "session": "s", "passed": true, "more": 1},
		} {
			if out, text, failed := h.call("report_skill_outcome", in); !failed || strings.Contains(text, "nternal") {
				t.Errorf("%.80v: %v %s", in, out, text)
			}
		}
		if got := ada.Get("/v1/sessions").Want(http.StatusOK).List("sessions"); len(got) != 1 {
			t.Errorf("invalid reports made sessions: %v", got)
		}
		// What another organisation's client reports is counted there.
		if _, text, failed := connect(t, w, "", bob.Key).call("report_skill_outcome", object{"skill": "acme/pdf", "session": "s1", "passed": true}); failed {
			t.Error(text)
		}
		if got := outcomes(ada, "s1"); len(got) != 2 {
			t.Errorf("grades of the first organisation: %v", got)
		}
		recounted(w)
	})
}

// TestOffered counts lists in the sessions that clients name, once.
func TestOffered(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		ada.Made("pdf", "1.0.0", skill(t, "pdf", "Reads."), public)
		ada.Made("docx", "1.0.0", skill(t, "docx", "Reads."), public)
		bob.Made("theirs", "1.0.0", skill(t, "theirs", "Reads."), public)
		figures := func(name string) string {
			t.Helper()
			s := ada.Get("/v1/skills/" + name).Want(http.StatusOK).Field("skill")
			return fmt.Sprintln(s["offered_sessions"], s["seen_sessions"], s["triggered_sessions"], s["trigger_rate"], s["trigger_rate_basis"])
		}
		none := figures("pdf")
		h := connect(t, w, base("acme"), ada.Key)
		h.list("")
		h.call("search_skills", object{"query": "pdf"})
		h.call("get_skill", object{"name": "pdf"})
		connect(t, w, base("acme", token(ada)), "").list("s1")
		connect(t, w, "", bob.Key).list("s1")
		connect(t, w, base("acme"), w.WithKey(ada.Org, ada.User, access.Read).Key).list("s1")
		h.list("not a session")
		if got := figures("pdf"); got != none {
			t.Errorf("without a session that the key may report: %s, want %s", got, none)
		}
		for range 3 {
			h.list("s1")
		}
		h.call("search_skills", object{"query": "pdf", "session": "s1"})
		connect(t, w, "", ada.Key).list("s1")
		for name, want := range map[string]string{"pdf": "1 1 0 0 offered\n", "docx": "1 1 0 0 offered\n"} {
			if got := figures(name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		ada.Get("/v1/skills/theirs").Want(http.StatusNotFound)
		// The agent's own telemetry of the same session is about the same session.
		ada.Post("/api/v1/push", object{"schema_version": "2.0", "canonical": object{
			"skill_offers": []object{{"session_id": "s1", "occurred_at": "2026-01-02T03:04:05Z", "skill_names": []string{"pdf"}}},
		}}).Want(http.StatusCreated)
		if got := figures("pdf"); got != "1 1 0 0 offered\n" {
			t.Errorf("with telemetry of the same session: %s", got)
		}
		// Loading it is a use, once for the session.
		h.call("get_skill", object{"name": "pdf", "session": "s1"})
		h.call("get_skill", object{"name": "pdf", "session": "s1"})
		h.call("get_skill", object{"name": "pdf", "session": "s1", "path": "SKILL.md"})
		h.call("report_skill_outcome", object{"skill": "pdf", "session": "s1", "passed": true})
		if got := figures("pdf"); got != "1 1 1 1 offered\n" {
			t.Errorf("after it was loaded: %s", got)
		}
		if n := w.Count(`skill_observations WHERE triggered`); n != 1 {
			t.Errorf("%d activations", n)
		}
		result, err := h.CallTool(t.Context(), &mcp.CallToolParams{
			Name: "get_skill", Arguments: object{"name": "docx"}, Meta: mcp.Meta{"dev.whetstone/session": "s1"},
		})
		if got := figures("docx"); err != nil || result.IsError || got != "1 1 1 1 offered\n" {
			t.Errorf("a session in _meta: %s, %v", got, err)
		}
		recounted(w)
	})
}

// TestEvidence is told to the skill's own organisation only.
func TestEvidence(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		ada.Made("pdf", "1.0.0", skill(t, "pdf", "Reads."), public)
		ada.Made("docx", "2.0.0", skill(t, "docx", "Reads."), public)
		w.Exec(`UPDATE registry_versions SET gate_id = 'gate-1' WHERE version = '1.0.0'`)
		w.Exec(`UPDATE registry_versions SET gate_id = 'gate-3' WHERE version = '2.0.0'`)
		h := connect(t, w, base("acme"), ada.Key)
		for session, passed := range map[string]bool{"s1": true, "s2": false} {
			if _, text, failed := h.call("report_skill_outcome", object{"skill": "pdf", "session": session, "passed": passed}); failed {
				t.Fatal(text)
			}
		}
		const known = "map[dev.whetstone/gate:gate-1 dev.whetstone/gate_verdict:pass dev.whetstone/graded_sessions:2 dev.whetstone/pass_rate:0.5 " +
			"dev.whetstone/publisher:acme dev.whetstone/version:1.0.0]"
		const unknown = "map[dev.whetstone/publisher:acme dev.whetstone/version:%s]"
		for _, c := range []struct {
			path, key string
			own       bool
		}{
			{base("acme"), ada.Key, true},
			{"", ada.Key, true},
			{base("acme", token(ada)), "", true},
			{base("acme"), "", false},
			{"", "", false},
			{"", bob.Key, false},
			{base("acme"), bob.Key, false},
			{base("acme"), token(bob), false},
		} {
			want := fmt.Sprintf(unknown, "1.0.0")
			if c.own {
				want = known
			}
			h := connect(t, w, c.path, c.key)
			all, _ := h.list("")
			one, err := h.get("skill://acme/pdf/SKILL.md")
			resources, listErr := h.ListResources(t.Context(), nil)
			if err != nil || listErr != nil || len(all) != 2 || len(resources.Resources) != 2 {
				t.Fatalf("%v, %v, %d skills", err, listErr, len(all))
			}
			for _, got := range []any{all[1].Meta, one.Meta, map[string]any(resources.Resources[1].Meta)} {
				if fmt.Sprint(got) != want {
					t.Errorf("%s: %v, want %s", c.path, got, want)
				}
			}
			if got := fmt.Sprint(all[0].Meta); got != fmt.Sprintf(unknown, "2.0.0") {
				t.Errorf("%s: %s: what is not known is not there", c.path, got)
			}
		}
	})
}
