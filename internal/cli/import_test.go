package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// importing is a machine with a login, and with the transcripts of so many
// sessions of two turns each: in the first the skill pdf fires, in the second
// only its file is read.
func (s service) importing(t *testing.T, sessions int) machine {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", "")
	m := s.loggedIn(t)
	for n := range sessions {
		put(t, m.projects(), fmt.Sprintf("-shop/session-%03d.jsonl", n), transcript(n))
	}
	return m
}

func (m machine) projects() string { return filepath.Join(m.home, ".claude", "projects") }

// noon is when the sessions were: yesterday.
func noon() time.Time { return time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour) }

// transcript is that of session n.
func transcript(n int) string {
	at := noon()
	var b strings.Builder
	for i, line := range []string{
		`"type":"user","message":{"role":"user","content":"Use pdf on the secret report"}`,
		`"type":"assistant","message":{"id":"m1","model":"claude-opus-4-5","content":[{"type":"tool_use","id":"t1","name":"Skill","input":{"skill":"pdf"}}],"usage":{"input_tokens":5,"output_tokens":7}}`,
		`"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}`,
		`"type":"user","message":{"role":"user","content":"And the other one"}`,
		`"type":"assistant","message":{"id":"m2","content":[{"type":"tool_use","id":"t2","name":"Read","input":{"file_path":"/s/pdf/SKILL.md"}}]}`,
	} {
		fmt.Fprintf(&b, `{"uuid":"u-%d-%d","sessionId":"session-%03d","timestamp":"%s",%s}`+"\n", n, i, n, at.Add(time.Duration(i)*time.Second).Format(time.RFC3339Nano), line)
	}
	return b.String()
}

// skillNumbers are what a server says of the skill pdf.
type skillNumbers struct {
	Skill struct {
		Status         string   `json:"status"`
		UniqueSessions int      `json:"unique_sessions"`
		TriggerRate    *float64 `json:"trigger_rate"`
		AvgConfidence  *float64 `json:"avg_confidence"`
	} `json:"skill"`
	DailyStats []struct {
		Checks   int `json:"checks"`
		Triggers int `json:"triggers"`
	} `json:"daily_stats"`
}

// wantNumbers checks what the server makes of that many sessions.
func (m machine) wantNumbers(t *testing.T, sessions int) {
	t.Helper()
	var got skillNumbers
	m.answers(t, &got, "skills", "pdf", "--days", "3")
	checks, triggers := 0, 0
	for _, d := range got.DailyStats {
		checks, triggers = checks+d.Checks, triggers+d.Triggers
	}
	if got.Skill.UniqueSessions != sessions || checks != 2*sessions || triggers != sessions ||
		*got.Skill.TriggerRate != 1 || *got.Skill.AvgConfidence != 0.85 || len(got.DailyStats) != 3 {
		t.Errorf("got %+v with %d checks and %d triggers, want %d sessions with 2 checks and 1 trigger each", got, checks, triggers, sessions)
	}
}

func TestImport(t *testing.T) {
	m := startService(t).importing(t, 3)
	want := "Read 3 of 3 transcripts.\n" +
		"Sent 30 records: 3 sessions, 6 prompts, 6 skill invocations, 6 execution facts, 3 model requests, 0 skill offers, 6 tool calls, 0 outcomes.\n"
	if diff := cmp.Diff(want, m.must(t, "import")); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	m.wantNumbers(t, 3)
	want = "Read 0 of 3 transcripts, 3 imported before.\n" +
		"Sent 0 records: 0 sessions, 0 prompts, 0 skill invocations, 0 execution facts, 0 model requests, 0 skill offers, 0 tool calls, 0 outcomes.\n"
	if diff := cmp.Diff(want, m.must(t, "import")); diff != "" {
		t.Errorf("output of the second time (-want +got):\n%s", diff)
	}
	m.wantNumbers(t, 3)

	// Without the state everything is sent again, and counts once.
	empty(t, filepath.Join(m.home, ".cache", "whetstone"))
	var out map[string]any
	m.answers(t, &out, "import", m.projects(), "--since", "1d")
	apptest.WantKeys(t, out, "dry_run", "files", "files_read", "files_unchanged", "files_too_old", "files_unreadable", "records", "pushes",
		"duplicate_pushes", "rejected", "malformed_lines", "problems", "state_file")
	if out["pushes"] != 1.0 || out["duplicate_pushes"] != 1.0 || out["files_read"] != 3.0 {
		t.Errorf("summary %v, want the server to know the push", out)
	}
	m.wantNumbers(t, 3)
}

// TestImportOfTwoPeople does not take the one's for the other's.
func TestImportOfTwoPeople(t *testing.T) {
	s := startService(t)
	ada := s.importing(t, 2)
	ada.must(t, "import")
	s.key = s.must(t, "key", "create", "--user", "grace@example.org", "--role", "member")["api_key"].(string)
	grace := s.importing(t, 2)
	if got := grace.must(t, "import", ada.projects()); !strings.Contains(got, "Sent 20 records") {
		t.Errorf("output %q, want everything to be sent", got)
	}
	ada.wantNumbers(t, 4)
}

func TestImportDryRun(t *testing.T) {
	m := newMachine(t)
	put(t, m.projects(), "-shop/a.jsonl", transcript(1)+"nonsense\n")
	r := m.run(t, "import", "--dry-run", "--server", "http://127.0.0.1:1")
	want := result{
		0, "Read 1 of 1 transcript; skipped 1 malformed line.\n" +
			"Would send 10 records: 1 session, 2 prompts, 2 skill invocations, 2 execution facts, 1 model request, 0 skill offers, 2 tool calls, 0 outcomes.\n",
		"whetstone: " + filepath.Join(m.projects(), "-shop", "a.jsonl") + ":6: the line is not a JSON object\n",
	}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestImportRefused(t *testing.T) {
	s := startService(t)
	m := s.importing(t, 1)
	m.run(t, "import", "/nowhere").want(t, term.ExitFailed, "whetstone: /nowhere does not exist; name the folder with the transcripts\n")
	m.run(t, "import", "--api-key", "st_live_wrong").want(t, term.ExitDenied, "rejected the key")
	m.run(t, "import", "--since", "soon").want(t, term.ExitUsage, "soon")
	key := s.must(t, "key", "create", "--role", "viewer")["api_key"].(string)
	m.run(t, "import", "--api-key", key).want(t, term.ExitDenied, "This needs the permission telemetry:write")
	key = s.must(t, "key", "create", "--permissions", "telemetry:write")["api_key"].(string)
	if got := m.must(t, "import", "--api-key", key); !strings.Contains(got, "Sent ") {
		t.Errorf("a key that can only report: %q", got)
	}
}

// TestImportWithoutPrompts looks at what goes over the line.
func TestImportWithoutPrompts(t *testing.T) {
	var bodies bytes.Buffer
	s := startService(t).behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Body = io.NopCloser(io.TeeReader(r.Body, &bodies))
		next.ServeHTTP(w, r)
	})
	m := s.importing(t, 1)
	m.must(t, "import", "--no-prompts")
	if sent := bodies.String(); strings.Contains(sent, "secret") || !strings.Contains(sent, `"prompt_kind":"user"`) {
		t.Errorf("sent %s, want prompts without their texts", sent)
	}
	m.must(t, "import")
	if !strings.Contains(bodies.String(), "Use pdf on the secret report") {
		t.Error("the texts were not sent when they were wanted")
	}
}

// TestImportWithContent sends what was said only where it is kept.
func TestImportWithContent(t *testing.T) {
	var bodies bytes.Buffer
	s := startService(t).behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.Body = io.NopCloser(io.TeeReader(r.Body, &bodies))
		next.ServeHTTP(w, r)
	})
	m := s.importing(t, 1)
	m.run(t, "import", "--with-content").want(t, term.ExitFailed,
		"whetstone: The organisation keeps no content of sessions, so nothing was sent. An owner can switch it on: `whetstone settings content on`")
	if strings.Contains(bodies.String(), "secret report") {
		t.Error("it was sent all the same")
	}
	m.must(t, "import", "--no-prompts")
	m.must(t, "settings", "content", "on")
	if got := m.must(t, "import", "--with-content", "--no-prompts"); !strings.Contains(got, "4 records of these include content.\n") {
		t.Errorf("output %q, want what was said to be sent after the rest", got)
	}
	for _, words := range []string{`"text":"Use pdf on the secret report"`, `"output":"ok"`, `"input":"{\"skill\":\"pdf\"}"`} {
		if !strings.Contains(bodies.String(), words) {
			t.Errorf("%s was not sent", words)
		}
	}
	if got := m.must(t, "import", "--with-content", "--no-prompts"); !strings.Contains(got, "1 imported before") {
		t.Errorf("output of the second time %q", got)
	}
	if diff := cmp.Diff([]string{
		"Use pdf on the secret report", `{"skill":"pdf"}` + "\n\nok", "And the other one", `{"file_path":"/s/pdf/SKILL.md"}`,
	}, s.texts(t, "session-000")); diff != "" {
		t.Errorf("texts of the session (-want +got):\n%s", diff)
	}
	s.wantNowhere(t, "secret report")
	var setting map[string]any
	m.answers(t, &setting, "settings", "content")
	if setting["enabled"] != true {
		t.Errorf("setting %v", setting)
	}
	m.must(t, "settings", "content", "off")
	m.must(t, "settings", "content", "delete")
	key := s.must(t, "key", "create", "--role", "admin")["api_key"].(string)
	m.run(t, "settings", "content", "on", "--api-key", key).want(t, term.ExitDenied, "This needs the role owner")
	key = s.must(t, "key", "create", "--permissions", "telemetry:write")["api_key"].(string)
	m.run(t, "import", "--with-content", "--api-key", key).want(t, term.ExitFailed, "The organisation keeps no content")
}

// wantNowhere looks for a text in the data folder and in a backup of it.
func (s service) wantNowhere(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "backup")
	s.run(t, "backup", file).want(t, 0, "")
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	archive, err := zstd.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	raw, err := io.ReadAll(archive)
	if err != nil || !bytes.Contains(raw, []byte("evidence_texts")) || bytes.Contains(raw, []byte(text)) {
		t.Errorf("%v; a backup of %d bytes has the text", err, len(raw))
	}
	err = filepath.WalkDir(s.data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(text)) {
			t.Errorf("%s has the text", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// texts returns what the server shows of a session's content.
func (s service) texts(t *testing.T, session string) (all []string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/sessions/"+session, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var out struct {
		Session struct {
			Events []struct {
				Text *string `json:"text"`
			} `json:"events"`
		} `json:"session"`
	}
	if err := json.NewDecoder(response.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	for _, e := range out.Session.Events {
		if e.Text != nil {
			all = append(all, *e.Text)
		}
	}
	return all
}

// TestImportThroughTrouble has a server that is busy, and one whose answer is
// lost after it has done the work.
func TestImportThroughTrouble(t *testing.T) {
	pushes := 0
	s := startService(t).behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path != "/api/v1/push" {
			next.ServeHTTP(w, r)
			return
		}
		switch pushes++; pushes {
		case 1:
			http.Error(w, "busy", http.StatusTooManyRequests)
		case 2:
			next.ServeHTTP(discard{http.Header{}}, r)
			http.Error(w, "lost", http.StatusBadGateway)
		default:
			next.ServeHTTP(w, r)
		}
	})
	m := s.importing(t, 2)
	var out map[string]any
	m.answers(t, &out, "import")
	if out["duplicate_pushes"] != 1.0 || pushes != 3 {
		t.Errorf("summary %v after %d tries, want the third to be known", out, pushes)
	}
	m.wantNumbers(t, 2)
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}

// TestImportGoesOn stops after the first of two pushes, by a server that
// breaks down or by Ctrl-C.
func TestImportGoesOn(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"server breaks down", "whetstone: out of order\n"},
		{"interrupted", "whetstone: The import was interrupted\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			pushes := 0
			s := startService(t).behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.URL.Path == "/api/v1/push" {
					pushes++
				}
				if r.URL.Path != "/api/v1/push" || pushes != 2 {
					next.ServeHTTP(w, r)
					return
				}
				if c.name == "interrupted" {
					interrupt()
				}
				w.WriteHeader(http.StatusInternalServerError)
				fmt.Fprint(w, `{"error":{"message":"out of order","status":500}}`)
			})
			m := s.importing(t, 80) // 800 records
			var stdout, stderr bytes.Buffer
			program := &term.Program{Version: "1.2.3", Stdout: &stdout, Stderr: &stderr, Stdin: m.stdin, Interactive: true}
			code := cli.Run(ctx, program, []string{"import"})
			text := stderr.String()
			want := map[bool]int{true: term.ExitInterrupted, false: term.ExitFailed}[c.name == "interrupted"]
			if code != want || !strings.HasSuffix(text, c.want) ||
				!strings.Contains(text, "whetstone: 500 records sent; the next import continues from there\n") {
				t.Errorf("exit code %d and %q", code, text)
			}
			if !strings.Contains(text, "\r[====") || !strings.Contains(text, "of 80 files, 500 records") {
				t.Errorf("standard error %q, want a bar", text)
			}
			var out map[string]any
			m.answers(t, &out, "import")
			if out["files_unchanged"] != 49.0 || out["files_read"] != 31.0 {
				t.Errorf("the second time %v, want the rest", out)
			}
			m.wantNumbers(t, 80)
		})
	}
}

func TestSkills(t *testing.T) {
	s := startService(t)
	m := s.importing(t, 6)
	if got, want := m.must(t, "skills"), "No skills yet; `whetstone import` reports the sessions that Claude Code keeps on this machine.\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
	m.must(t, "import")
	for n := range 6 {
		s.grade(t, n)
	}
	date := noon().Format(time.DateOnly)
	got := m.must(t, "skills")
	row := strings.Join(strings.Fields(got), " ")
	if !strings.HasPrefix(row, "SKILL STATUS PASS RATE BASIS TRIGGER RATE COST PER USE SESSIONS LAST SEEN pdf healthy 100% ") || !strings.HasSuffix(row, " reported 100% - 6 "+date) {
		t.Errorf("output %q", got)
	}
	want := "Skill         pdf\n" +
		"Status        healthy\n" +
		"Pass rate     100% (61% to 100%)  of 6 graded sessions\n" +
		"Basis         reported 100% of 6\n" +
		"Trigger rate  100%  of 6 sessions that considered it; offers are unknown\n" +
		"Confidence    85%  known of 100% of the triggers\n" +
		"Sessions      6\n" +
		"Seen          DATE to DATE\n" +
		"\n" +
		"DATE   SESSIONS  CHECKS  TRIGGERS  TRIGGER RATE  PASS RATE\n" +
		"DATE   6         12      6         100%          100%\n"
	got = strings.ReplaceAll(m.must(t, "skills", "pdf"), date, "DATE")
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(got)); diff != "" {
		t.Errorf("output %s\n(-want +got):\n%s", got, diff)
	}

	for filter, want := range map[string]int{"--status=healthy": 1, "--status=critical": 0, "--find=PD": 1, "--find=xlsx": 0, "--sort=-pass_rate": 1} {
		var list []map[string]any
		m.answers(t, &list, "skills", filter)
		if len(list) != want {
			t.Errorf("%s: %v, want %d", filter, list, want)
		}
	}
	m.run(t, "skills", "xlsx").want(t, term.ExitFailed, "whetstone: Skill not found: xlsx; `whetstone skills --find TEXT` searches names")
	m.run(t, "skills", "--status", "ill").want(t, term.ExitUsage, "ill")
	m.run(t, "skills", "--sort", "smell").want(t, term.ExitUsage, "sort")
}

// grade pushes the verdict that a session went well.
func (s service) grade(t *testing.T, n int) {
	t.Helper()
	body := fmt.Sprintf(`{"canonical":{"grading_results":[{"grading_id":"g%d","session_id":"session-%03d","skill_name":"pdf",
		"graded_at":"%s","pass_rate":1}]}}`,
		n, n, noon().Format(time.RFC3339))
	s.api(t).Post("/api/v1/push", body).Want(201)
}
