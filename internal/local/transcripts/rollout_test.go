package transcripts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	rollout = "rollout-2026-11-16T08-29-30-01a1e379-c2f4-7760-9efd-5ce33ac5e135.jsonl"
	thread  = "01a1e379-c2f4-7760-9efd-5ce33ac5e135"
	turnOne = "01a1e379-c317-7783-8047-a216bc5b584e"
)

// TestRollout: a session of the real Codex, in which a prompt names a skill, its
// file is read, and a command fails.
func TestRollout(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "codex", rollout))
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string]int{"at once": 1, "line by line": strings.Count(string(raw), "\n")} {
		t.Run(name, func(t *testing.T) {
			m, srv := newMachine(t), newServer()
			lines := slices.Collect(strings.Lines(string(raw)))
			for n := range parts {
				m.write(rollout, strings.Join(lines[:len(lines)*(n+1)/parts], ""))
				if got := m.run(srv); got.Malformed > 0 {
					t.Errorf("problems %v", got.Problems)
				}
			}
			var got []string
			for kind, fields := range map[string][]string{
				"session":          {"agent_cli", "platform", "workspace_path", "model"},
				"prompt":           {"prompt_text", "source_prompt_id"},
				"skill_invocation": {"skill_name", "invocation_mode", "triggered", "confidence", "source_prompt_id"},
				"tool_call":        {"tool_name", "success"},
				"execution_fact":   {"total_tool_calls", "errors_encountered"},
				"skill_offer":      {"skill_names"},
				"model_request":    nil, // OTLP reports them, and they could not be matched
			} {
				for _, r := range srv.of(kind) {
					if r["session_id"] != thread {
						t.Errorf("a %s is of session %v", kind, r["session_id"])
					}
					text := kind
					for _, f := range fields {
						text += fmt.Sprintf(" %v", r[f])
					}
					got = append(got, text)
				}
			}
			slices.Sort(got)
			want := []string{
				"execution_fact 2 1",
				"prompt Use $pdf-tables please " + turnOne,
				"session codex/0.166.0 codex /home/ada/project gpt-5.1-codex",
				"skill_invocation pdf-tables explicit true 1 " + turnOne,
				"skill_invocation pdf-tables inferred true 0.6 " + turnOne,
				"skill_offer [pdf-tables]",
				"tool_call exec_command false",
				"tool_call exec_command true",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRolloutWithContent: on request, what was said is sent: the prompt, what went
// into the commands and came out of them, and the answer.
func TestRolloutWithContent(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "codex", rollout))
	if err != nil {
		t.Fatal(err)
	}
	m, srv := newMachine(t), newServer()
	m.write(rollout, string(raw))
	i := m.newImport(srv)
	i.Content = true
	if _, err := i.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range srv.of("transcript") {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%v %s %s %s", r["role"], or(r["text"]), or(r["input"]), or(r["output"]))))
	}
	slices.Sort(got)
	want := []string{
		"assistant Pencils, 12.50. TURMERIC",
		`tool  {"cmd":"cat .agents/skills/pdf-tables/SKILL.md"} ---` + "\n" + `name: pdf-tables` + "\n" +
			`description: Extracts tables from PDF files. Use it for invoices.` + "\n---\nRead the invoice and answer in one line. OBSIDIAN",
		"tool  {\"cmd\":\"false\"} Chunk ID: 696588\nWall time: 0.0000 seconds\nProcess exited with code 1\nOriginal token count: 0\nOutput:",
		"user Use $pdf-tables please",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was said (-want +got):\n%s", diff)
	}
}

func or(value any) string {
	text, _ := value.(string) // "" if it is missing
	return text
}

// TestRolloutReads: a SKILL.md that is not there is no use of a skill; one that was
// read before a command failed is.
func TestRolloutReads(t *testing.T) {
	for name, test := range map[string]struct {
		status, parts string
		want          int
	}{
		"read":        {"completed", `{"type":"read","path":"pdf/SKILL.md"}`, 1},
		"missing":     {"failed", `{"type":"read","path":"pdf/SKILL.md"}`, 0},
		"then failed": {"failed", `{"type":"read","path":"pdf/SKILL.md"},{"type":"unknown"}`, 1},
	} {
		m, srv := newMachine(t), newServer()
		m.write(rollout, strings.Join([]string{
			`{"timestamp":"2026-11-16T08:29:30Z","type":"session_meta","payload":{"cwd":"/p"}}`,
			`{"timestamp":"2026-11-16T08:29:31Z","type":"event_msg","payload":{"type":"item_completed","turn_id":"t",` +
				`"item":{"type":"UserMessage","id":"u","content":[{"text":"Go"}]}}}`,
			`{"timestamp":"2026-11-16T08:29:32Z","type":"event_msg","payload":{"type":"item_completed","turn_id":"t",` +
				`"item":{"type":"CommandExecution","id":"c","status":"` + test.status + `","parsed_cmd":[` + test.parts + `]}}}`,
		}, "\n")+"\n")
		m.run(srv)
		if got := len(srv.of("skill_invocation")); got != test.want {
			t.Errorf("%s: %d uses, want %d", name, got, test.want)
		}
	}
}

// TestRolloutOfAnotherVersion: lines that are not known are left out.
func TestRolloutOfAnotherVersion(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(rollout, strings.Join([]string{
		`{"timestamp":"2026-11-16T08:29:30Z","type":"session_meta","payload":{"cwd":7}}`,
		`{"timestamp":"2026-11-16T08:29:30Z","type":"some_day","payload":[]}`,
		`{"timestamp":"2026-11-16T08:29:31Z","type":"event_msg","payload":{"type":"item_completed","item":{"type":"Dance"}}}`,
		`nonsense`,
		`{"timestamp":"soon","type":"turn_context","payload":{"model":"m"}}`,
		`{"timestamp":"2026-11-16T08:29:32Z","type":"turn_context","payload":{"model":"m"}}`,
	}, "\n")+"\n")
	got := m.run(srv)
	if got.Malformed != 3 || len(srv.of("session")) != 1 {
		t.Errorf("%+v, %d sessions; want 3 malformed lines, and the session", got, len(srv.of("session")))
	}
}
