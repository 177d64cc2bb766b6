package hook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/local/hook"
)

// room has a home with the settings of agents.
type room struct {
	*testing.T
	agent string
	hook.Settings
}

func newRoom(t *testing.T, agent, content string) room {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("CLAUDE_CONFIG_DIR", dir)
	t.Setenv("CODEX_HOME", dir)
	s, err := hook.SettingsOf(agent, hook.User)
	if err != nil {
		t.Fatal(err)
	}
	r := room{t, agent, s}
	if content != "" {
		r.write(content)
	}
	return r
}

func (r room) write(content string) {
	r.Helper()
	if err := os.WriteFile(r.Path, []byte(content), 0o640); err != nil {
		r.Fatal(err)
	}
}

// content returns that of the file, "" if there is none.
func (r room) content() string {
	r.Helper()
	raw, err := os.ReadFile(r.Path)
	if err != nil && !os.IsNotExist(err) {
		r.Fatal(err)
	}
	return string(raw)
}

func (r room) install(flags ...string) {
	r.Helper()
	if err := r.Install("/opt/whetstone", flags); err != nil {
		r.Fatal(err)
	}
}

func (r room) uninstall() {
	r.Helper()
	if removed, err := r.Uninstall(); err != nil || !removed {
		r.Fatalf("uninstall: %t, %v", removed, err)
	}
}

const claudeCommand = "/opt/whetstone hook queue claude-code >/dev/null 2>&1 && { /opt/whetstone hook send </dev/null >/dev/null 2>&1 & } ; true"

// TestLayout: the hook is written in the layout of the file, and nothing else is
// touched.
func TestLayout(t *testing.T) {
	ours := `{"hooks":[{"type":"command","command":"` + claudeCommand + `","timeout":10}]}`
	for name, test := range map[string]struct{ agent, before, after string }{
		"no file": {hook.ClaudeCode, "", `{
  "hooks": {
    "Stop": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "` + claudeCommand + `",
            "timeout": 10
          }
        ]
      }
    ],
    "SessionEnd": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "` + claudeCommand + `",
            "timeout": 10
          }
        ]
      }
    ]
  }
}
`},
		"one line": {
			hook.ClaudeCode, `{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]},"env":{}}`,
			`{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]},` + ours + `],"SessionEnd":[` + ours +
				`]},"env":{}}`,
		},
		"other order and indentation": {hook.ClaudeCode, "{\r\n\t\"z\": 1.50,\r\n\t\"a\": \"\\u003c\"\r\n}\r\n", ""},
		"empty hooks":                 {hook.ClaudeCode, `{"hooks": {"Stop": []}}`, ""},
		"nothing but white space":     {hook.ClaudeCode, " \n", ""},
		"no comma":                    {hook.ClaudeCode, "{\n}", ""},
		"codex": {hook.Codex, "# mine\nmodel = \"gpt-5\"\n[tui]\nnotifications = true", `notify = ["sh", "-c", '/opt/whetstone hook queue codex ` +
			`"$1" >/dev/null 2>&1 && { /opt/whetstone hook send </dev/null >/dev/null 2>&1 & } ; true', "whetstone"]` +
			"\n# mine\nmodel = \"gpt-5\"\n[tui]\nnotifications = true"},
		"codex without a file": {hook.Codex, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, test.agent, test.before)
			r.install()
			if got := r.content(); test.after != "" && got != test.after {
				t.Errorf("installed:\n%s\nwant:\n%s", got, test.after)
			}
			installed := r.content()
			r.install()
			if got := r.content(); got != installed {
				t.Errorf("installed twice:\n%s\nwant:\n%s", got, installed)
			}
			if command, err := r.Installed(); err != nil || !strings.Contains(command, "/opt/whetstone hook queue "+test.agent) {
				t.Errorf("the command is %q, %v", command, err)
			}
			r.uninstall()
			if got := r.content(); got != test.before {
				t.Errorf("uninstalled:\n%q\nwant:\n%q", got, test.before)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(r.Path), "*")); test.before == "" && len(left) > 0 || len(left) > 1 {
				t.Errorf("%q are left", left)
			}
			if removed, err := r.Uninstall(); removed || err != nil {
				t.Errorf("uninstalled again: %t, %v", removed, err)
			}
		})
	}
}

// TestChangedMeanwhile: what was added to the settings after the hook stays.
func TestChangedMeanwhile(t *testing.T) {
	r := newRoom(t, hook.ClaudeCode, "{\n  \"model\": \"opus\"\n}\n")
	r.install()
	r.write(strings.Replace(strings.Replace(r.content(), `"opus"`, `"sonnet"`, 1), `"Stop": [`, `"Stop": [
      {
        "matcher": "",
        "hooks": [{"type": "command", "command": "say done"}]
      },`, 1))
	r.install("--server", "https://w.example/a b")
	if command, _ := r.Installed(); !strings.Contains(command, "claude-code --server 'https://w.example/a b' >") {
		t.Errorf("the command is %q", command)
	}
	r.uninstall()
	want := `{
  "model": "sonnet",
  "hooks": {
    "Stop": [
      {
        "matcher": "",
        "hooks": [{"type": "command", "command": "say done"}]
      }
    ]
  }
}
`
	if got := r.content(); got != want {
		t.Errorf("uninstalled:\n%s\nwant:\n%s", got, want)
	}

	r = newRoom(t, hook.Codex, "model = \"a\"\n")
	r.install()
	r.write(r.content() + "# more\n")
	r.uninstall()
	if got := r.content(); got != "model = \"a\"\n# more\n" {
		t.Errorf("uninstalled: %q", got)
	}
}

// TestSharedMatcher: of a matcher with other hooks only ours goes.
func TestSharedMatcher(t *testing.T) {
	r := newRoom(t, hook.ClaudeCode, `{"hooks":{"Stop":[{"matcher":"x","hooks":[{"command":"`+claudeCommand+
		`"},{"command":"b"}]}],"SessionEnd":[{"matcher":"x","hooks":[{"command":"`+claudeCommand+`"}]},{"hooks":[]}]}}`)
	r.uninstall()
	if got, want := r.content(), `{"hooks":{"Stop":[{"matcher":"x","hooks":[{"command":"b"}]}],"SessionEnd":[{"hooks":[]}]}}`; got != want {
		t.Errorf("uninstalled %s, want %s", got, want)
	}
}

// TestBrokenSettings: nothing is written, and the error has the line.
func TestBrokenSettings(t *testing.T) {
	for _, test := range []struct{ agent, content, message string }{
		{hook.ClaudeCode, "{\n  \"a\": 1,\n}", "Line 3"},
		{hook.ClaudeCode, "{\n  // comment\n}", "Line 2"},
		{hook.ClaudeCode, "{\n  \"a\": {", "Line 2 of the settings: it is not valid JSON: the text ends too early"},
		{hook.ClaudeCode, "{}\n{}", "there is text after the end"},
		{hook.ClaudeCode, "\n[]", "Line 2 of the settings: the settings must be an object"},
		{hook.ClaudeCode, "{\n\n\"hooks\": []}", "Line 3 of the settings: hooks must be an object"},
		{hook.ClaudeCode, "{\"hooks\": {\n\"Stop\": {}}}", "Line 2 of the settings: hooks.Stop must be an array"},
		{hook.Codex, "a = 1\nb = [", "Line 2 of the settings: it is not valid TOML"},
		{hook.Codex, "notify = 1", "not those of Codex"},
		{hook.Codex, "notify = [\"say\", \"done\"]", "Codex calls only one"},
	} {
		r := newRoom(t, test.agent, test.content)
		err := r.Install("/opt/whetstone", nil)
		if err == nil || !strings.Contains(err.Error(), test.message) || fault.Is(err, fault.Internal) {
			t.Errorf("%q: error %v, want %q", test.content, err, test.message)
		}
		if got := r.content(); got != test.content {
			t.Errorf("%q became %q", test.content, got)
		}
	}
}

// TestPermissions: the file and its backup keep them, and a link stays one.
func TestPermissions(t *testing.T) {
	r := newRoom(t, hook.ClaudeCode, "")
	target := filepath.Join(t.TempDir(), "dotfiles.json")
	if err := os.WriteFile(target, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, r.Path); err != nil {
		t.Fatal(err)
	}
	r.install()
	for _, path := range []string{target, target + ".whetstone-backup"} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if link, err := os.Readlink(r.Path); err != nil || link != target {
		t.Errorf("the link is %q, %v", link, err)
	}
	r.uninstall()
	if got := r.content(); got != "{}" {
		t.Errorf("uninstalled: %q", got)
	}
	fresh := newRoom(t, hook.Codex, "")
	fresh.install()
	if info, err := os.Stat(fresh.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a new file has %v, %v", info, err)
	}
}

func TestProjectScope(t *testing.T) {
	if s, err := hook.SettingsOf(hook.ClaudeCode, hook.Project); err != nil || s.Path != filepath.Join(".claude", "settings.json") {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := hook.SettingsOf(hook.Codex, hook.Project); !fault.Is(err, fault.Malformed) && err == nil {
		t.Errorf("error %v", err)
	}
}
