package transcripts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// outcomes returns the outcomes that a server got, by name and id.
func (s *server) outcomes() map[string]any {
	found := map[string]any{}
	for _, r := range s.of("outcome") {
		found[fmt.Sprint(r["outcome"], " ", r["outcome_id"])] = r["passed"]
	}
	return found
}

// marker stands in commands and outputs, which stay on the machine.
const marker = "MARZIPAN"

// TestOutcomes: whether tests passed is sent where it is known, and nothing else of a
// command.
func TestOutcomes(t *testing.T) {
	m, srv := newMachine(t), newServer()
	s := new(script)
	s.user("Make the tests pass").skill("t0", "pdf").result("t0", false)
	run := func(id, command string, status int, output string) {
		s.use(id, "Bash", object{"command": command, "description": marker}).ran(id, status, output)
	}
	run("passed", "cd "+marker+" && go test ./...", 0, "ok "+marker)
	run("failed", "npm test -- "+marker, 1, marker)
	run("piped", "go test ./... | tail", 0, "FAIL")
	run("other", "ls", 0, "")
	run("no status", "go test ./...", 137, "")
	s.use("refused", "Bash", object{"command": "go test ./..."}).result("refused", true)
	s.use("background", "Bash", object{"command": "go test ./...", "run_in_background": true}).ran("background", 0, "Command running in background")
	s.use("moved", "Bash", object{"command": "go test ./..."}).add(object{
		"type": "user", "toolUseResult": object{"backgroundTaskId": "b1"},
		"message": object{"content": []object{{"type": "tool_result", "tool_use_id": "moved", "content": "..."}}},
	})
	s.use("stopped", "Bash", object{"command": "go test ./..."}).add(object{
		"type": "user", "toolUseResult": object{"interrupted": true},
		"message": object{"content": []object{{"type": "tool_result", "tool_use_id": "stopped", "content": "..."}}},
	})
	s.use("not ended", "Bash", object{"command": "go test ./..."})
	s.use("not a shell", "Task", object{"command": "go test ./..."}).result("not a shell", false)
	s.with = object{"uuid": "stop"}
	s.user("[Request interrupted by user for tool use]")
	m.write(main, s.String())
	if got := m.run(srv).Records.Outcomes; got != 3 {
		t.Errorf("%d outcomes, want 3", got)
	}
	want := map[string]any{"tests_passed passed": true, "tests_passed failed": false, "interrupted stop": false}
	if diff := cmp.Diff(want, srv.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	for kind := range map[string]bool{"outcome": true, "tool_call": true, "execution_fact": true} {
		if raw := encode(srv.of(kind)); strings.Contains(raw, marker) || strings.Contains(raw, "npm") {
			t.Errorf("a %s has the command: %s", kind, raw)
		}
	}
	if raw := encode(srv.records); strings.Contains(raw, marker) {
		t.Error("a command is sent")
	}
}

// codexCommand is a command that Codex has run, as it writes it.
func codexCommand(id string, status int, command ...string) string {
	state := map[bool]string{true: "completed", false: "failed"}[status == 0]
	at := clock.Format(time.RFC3339Nano)
	line := func(kind string, payload object) string {
		return encode(object{"timestamp": at, "type": kind, "payload": payload}) + "\n"
	}
	return line("response_item", object{"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": id}) +
		line("event_msg", object{"type": "item_completed", "item": object{
			"type": "CommandExecution", "id": id, "command": command, "cwd": "file:///home/ada/shop", "status": state, "exit_code": status,
			"aggregated_output": marker, "parsed_cmd": []object{},
		}})
}

func TestOutcomesOfCodex(t *testing.T) {
	m, srv := newMachine(t), newServer()
	m.write(rollout, codexCommand("passed", 0, "/bin/bash", "-lc", "cargo test "+marker)+codexCommand("failed", 101, "cargo", "test", marker)+
		codexCommand("other", 0, "/bin/bash", "-lc", "ls")+codexCommand("piped", 1, "/bin/bash", "-c", "cargo test | head"))
	m.run(srv)
	if diff := cmp.Diff(map[string]any{"tests_passed passed": true, "tests_passed failed": false}, srv.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if raw := encode(srv.records); strings.Contains(raw, marker) {
		t.Error("a command is sent")
	}
}

// A checkout is a repository that an agent works in.
type checkout struct {
	*testing.T
	dir string
	now time.Time
}

func newCheckout(t *testing.T, now time.Time) *checkout {
	t.Helper()
	c := &checkout{t, t.TempDir(), now}
	c.git("init", "--quiet", "--initial-branch=main")
	return c
}

func (c *checkout) git(args ...string) string {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), "git", args...)
	cmd.Dir = c.dir
	stamp := c.now.Format(time.RFC3339)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE="+stamp, "GIT_COMMITTER_DATE="+stamp, "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@b.c",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@b.c", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// work is a transcript in which the agent commits. What git prints is the result;
// newer versions of Claude Code also note the commit, here of every second one.
func (c *checkout) work(ids ...string) *script {
	c.Helper()
	s := new(script)
	for i, id := range ids {
		c.now = c.now.Add(time.Second)
		s.with = object{"timestamp": c.now.Format(time.RFC3339Nano), "cwd": c.dir, "uuid": fmt.Sprint("u", i)}
		message := marker + " " + id
		s.user("Do "+id).use(id, "Bash", object{"command": "git commit --allow-empty -m '" + message + "'"})
		printed := c.git("commit", "--allow-empty", "-m", message)
		if i%2 == 0 {
			s.ran(id, 0, printed)
			continue
		}
		s.add(object{
			"type": "user", "toolUseResult": object{"gitOperation": object{"commit": object{
				"sha": strings.TrimSpace(c.git("rev-parse", "--short", "HEAD")), "kind": "committed", "branch": "main",
			}}},
			"message": object{"content": []object{{"type": "tool_result", "tool_use_id": id, "content": "...", "is_error": false}}},
		})
	}
	return s
}

// TestCommits: a day after it was made, what became of a commit is sent once, and
// neither its hash nor its words.
func TestCommits(t *testing.T) {
	c := newCheckout(t, time.Now().Add(-72*time.Hour))
	m, srv := newMachine(t), newServer()
	text := c.work("kept", "bad").String()
	m.write(main, text)
	c.now = c.now.Add(time.Hour)
	hash := strings.TrimSpace(c.git("rev-parse", "HEAD"))
	c.git("commit", "--allow-empty", "-m", "Revert it", "-m", "This reverts commit "+hash+".")
	want := map[string]any{"commit_survived kept": true, "commit_survived bad": false}
	if got := m.run(srv).Records.Outcomes; got != 2 {
		t.Errorf("%d outcomes, want 2", got)
	}
	if diff := cmp.Diff(want, srv.outcomes()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if got := m.run(srv).Records.Outcomes; got != 0 {
		t.Errorf("%d outcomes the second time, want none", got)
	}
	if raw := encode(srv.records); strings.Contains(raw, marker) || strings.Contains(raw, hash[:7]) {
		t.Error("a commit is sent")
	}
}

// TestYoungCommits: a commit waits for a day, in the state, also if its transcript does
// not change any more. One that is not found waits longer, and is given up in the end.
func TestYoungCommits(t *testing.T) {
	c := newCheckout(t, time.Now().Add(-time.Hour))
	m, srv := newMachine(t), newServer()
	m.write(main, c.work("kept").String())
	lost := newCheckout(t, time.Now().Add(-time.Hour))
	m.write("other.jsonl", lost.work("lost").String())
	if err := os.RemoveAll(filepath.Join(lost.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := m.run(srv).Records.Outcomes; got != 0 {
			t.Errorf("%d outcomes of young commits", got)
		}
	}
	m.runLater(srv, 24*time.Hour)
	if diff := cmp.Diff(map[string]any{"commit_survived kept": true}, srv.outcomes()); diff != "" {
		t.Errorf("outcomes after a day (-want +got):\n%s", diff)
	}
	if n := m.runLater(srv, 25*time.Hour); n != 1 {
		t.Errorf("%d commits wait, want the one that was not found", n)
	}
	if n := m.runLater(srv, 31*24*time.Hour); n != 0 || len(srv.outcomes()) != 1 {
		t.Errorf("%d commits wait for ever, %v", n, srv.outcomes())
	}
}

// runLater imports as if some time had passed, and returns how many commits wait.
func (m machine) runLater(s *server, d time.Duration) int {
	m.t.Helper()
	i := m.newImport(s)
	i.SetClock(func() time.Time { return time.Now().Add(d) })
	if _, err := i.Run(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	return i.State.Commits()
}
