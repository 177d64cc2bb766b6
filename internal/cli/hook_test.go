package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// queue calls the hook as Claude Code does, at the end of a turn of session n.
func (m machine) queue(t *testing.T, n int) {
	t.Helper()
	path := filepath.Join(m.projects(), "-shop", "session-00"+string(rune('0'+n))+".jsonl")
	m.stdin = strings.NewReader(`{"session_id":"s","transcript_path":"` + path + `","hook_event_name":"Stop","last_assistant_message":"x"}`)
	if out := m.must(t, "hook", "queue", "claude-code"); out != "" {
		t.Errorf("the hook prints %q", out)
	}
}

func (m machine) settings() string { return filepath.Join(m.home, ".claude", "settings.json") }

// TestHookSends: a session is sent once, however often its turns end; what the
// server cannot take waits.
func TestHookSends(t *testing.T) {
	s := startService(t)
	m := s.importing(t, 2)
	m.queue(t, 0)
	m.queue(t, 0)
	var status struct {
		Waiting int    `json:"waiting"`
		Log     string `json:"log"`
	}
	waiting := func(want int) {
		t.Helper()
		if m.run(t, "hook", "status", "--json").decode(t, &status); status.Waiting != want {
			t.Errorf("%d sessions wait, want %d", status.Waiting, want)
		}
	}
	waiting(1)
	m.run(t, "hook", "send", "--delay", "1ms", "--server", "http://127.0.0.1:9", "--api-key", s.key).
		wantFailure(t, term.ExitFailed, "Cannot reach http://127.0.0.1:9: connection refused")
	m.run(t, "hook", "send", "--delay", "1ms", "--server", "http://127.0.0.1:9").wantFailure(t, term.ExitDenied,
		"No API key for http://127.0.0.1:9; run `whetstone login --server http://127.0.0.1:9`, or set WHETSTONE_API_KEY")
	waiting(1)
	if log, err := os.ReadFile(status.Log); err != nil || strings.Count(string(log), "\n") != 2 || strings.Contains(string(log), s.key) {
		t.Errorf("the log is %q, %v; want a line for each failure", log, err)
	}
	for range 2 {
		m.must(t, "hook", "send", "--delay", "1ms")
	}
	waiting(0)
	m.wantNumbers(t, 1)
	m.must(t, "import")
	m.queue(t, 1)
	m.must(t, "hook", "send", "--delay", "1ms")
	m.wantNumbers(t, 2)
}

// TestHookNeverFails: a payload that is no use is in the log.
func TestHookNeverFails(t *testing.T) {
	m := newMachine(t)
	t.Setenv("XDG_CACHE_HOME", "")
	for _, args := range [][]string{{"claude-code"}, {"codex"}, {"codex", "nonsense"}, {"codex", `{"thread-id":"x"}`}} {
		if got := m.run(t, append([]string{"hook", "queue"}, args...)...); got.code != 0 || got.stdout+got.stderr != "" {
			t.Errorf("%q: %+v, want silence", args, got)
		}
	}
	log, err := os.ReadFile(filepath.Join(m.home, ".cache", "whetstone", "hook", "hook.log"))
	if err != nil || strings.Count(string(log), "\n") != 4 {
		t.Errorf("the log is %q, %v; want 4 lines", log, err)
	}
}

func TestHookInstall(t *testing.T) {
	s := startService(t)
	m := newMachine(t)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	t.Setenv("CODEX_HOME", "")
	put(t, m.home, ".claude/settings.json", `{"model":"opus"}`)
	for _, args := range [][]string{
		{"claude-code", "--server", s.url}, {"claude-code", "--server", s.url, "--api-key", "st_live_nonsense"},
	} {
		if got := m.run(t, append([]string{"hook", "install"}, args...)...); got.code != term.ExitDenied {
			t.Errorf("%q: %+v, want it to be denied", args, got)
		}
	}
	m.run(t, "hook", "install", "codex", "--scope", "project").
		wantFailure(t, term.ExitUsage, "scope must be user: Codex takes no hooks from the settings of a project")
	if raw, _ := os.ReadFile(m.settings()); string(raw) != `{"model":"opus"}` {
		t.Errorf("the settings are %s", raw)
	}
	// The key becomes the stored login, and is not in the settings.
	for range 2 {
		m.must(t, "hook", "install", "claude-code", "--server", s.url, "--api-key", s.key, "--no-prompts")
		m.must(t, "hook", "install", "codex")
	}
	for _, path := range []string{m.settings(), filepath.Join(m.home, ".codex", "config.toml")} {
		raw, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(raw), s.key) || strings.Count(string(raw), " hook queue ") == 0 {
			t.Errorf("%s: %s, %v", path, raw, err)
		}
	}
	raw, _ := os.ReadFile(m.settings())
	if !strings.Contains(string(raw), " hook queue claude-code --server "+s.url+" --no-prompts >/dev/null") {
		t.Errorf("the settings are %s", raw)
	}
	status := m.must(t, "hook", "status")
	if got := strings.Count(status, "installed"); got != 2 || !strings.Contains(status, "Waiting to be sent: 0 sessions") {
		t.Errorf("the status is\n%s", status)
	}
	put(t, m.home, ".codex/config.toml", "notify = [")
	if status := m.must(t, "hook", "status"); !strings.Contains(status, "Line 1 of the settings: it is not valid TOML") {
		t.Errorf("the status is\n%s", status)
	}
	m.must(t, "hook", "uninstall", "claude-code")
	if raw, _ := os.ReadFile(m.settings()); string(raw) != `{"model":"opus"}` {
		t.Errorf("the settings are %s", raw)
	}
	if got := m.must(t, "hook", "uninstall", "claude-code"); !strings.HasPrefix(got, "There is no hook in") {
		t.Errorf("prints %q", got)
	}
}
