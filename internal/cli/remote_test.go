package cli_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// A service is the real service on its own database.
type service struct {
	installation
	url string
	key string // of the owner of default, on the plan team
}

func startService(t *testing.T, flags ...string) service {
	t.Helper()
	var all struct {
		config.Config `embed:""`
	}
	parser, err := kong.New(&all)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Dir(strings.TrimPrefix(storetest.URL(t, "sqlite"), "sqlite:"))
	if _, err := parser.Parse(append([]string{"--data", data, "--addr", "127.0.0.1:0"}, flags...)); err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), app.Options{Config: all.Config, Version: "dev", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return service{installation{data}, a.ListenURL(), a.FirstKey}
}

// api calls the service with the owner's key.
func (s service) api(t *testing.T) *apptest.Caller {
	return &apptest.Caller{T: t, URL: s.url, Key: s.key}
}

// behind puts a proxy in front of the service; the handler calls next to pass
// a request on.
func (s service) behind(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, next http.Handler)) service {
	t.Helper()
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, proxy) }))
	t.Cleanup(front.Close)
	s.url = front.URL
	return s
}

// A machine is a user's machine, with its own home folder.
type machine struct {
	home    string
	stdin   io.Reader
	present bool // a person is at the terminal
}

func newMachine(t *testing.T) machine {
	t.Helper()
	return machine{home: t.TempDir(), stdin: strings.NewReader("")}
}

// loggedIn is a machine with a login at the service.
func (s service) loggedIn(t *testing.T) machine {
	t.Helper()
	m := newMachine(t)
	m.must(t, "login", "--server", s.url, "--api-key", s.key)
	return m
}

func (m machine) run(t *testing.T, args ...string) result {
	t.Helper()
	t.Setenv("HOME", m.home)
	t.Setenv("XDG_CONFIG_HOME", "")
	var stdout, stderr bytes.Buffer
	program := &term.Program{Version: "1.2.3", Stdout: &stdout, Stderr: &stderr, Stdin: m.stdin, Interactive: m.present}
	code := cli.Run(t.Context(), program, args)
	return result{code, stdout.String(), stderr.String()}
}

// must runs a command that has to work, and returns what it prints.
func (m machine) must(t *testing.T, args ...string) string {
	t.Helper()
	r := m.run(t, args...)
	if r.code != term.ExitOK {
		t.Fatalf("%q: exit code %d: %s", args, r.code, r.stderr)
	}
	return r.stdout
}

// answers runs a command with --json and reads what it prints.
func (m machine) answers(t *testing.T, value any, args ...string) result {
	t.Helper()
	r := m.run(t, append(args, "--json")...)
	if r.stdout == "" {
		t.Fatalf("%q: exit code %d: %s", args, r.code, r.stderr)
	}
	r.decode(t, value)
	return r
}

// skills is the folder into which this machine installs by default.
func (m machine) skills() string { return filepath.Join(m.home, ".claude", "skills") }

// file reads a file of an installed skill.
func (m machine) file(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(m.skills(), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// want checks the exit code and that standard error has the text.
func (r result) want(t *testing.T, code int, stderr string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stderr, stderr) {
		t.Errorf("exit code %d and %q, want %d and %q", r.code, r.stderr, code, stderr)
	}
}

// skillFolder makes a folder with a skill.
func skillFolder(t *testing.T, name, body string) string {
	t.Helper()
	dir := t.TempDir()
	writeSkill(t, dir, name, body)
	return dir
}

func writeSkill(t *testing.T, dir, name, body string) {
	t.Helper()
	put(t, dir, "SKILL.md", "---\nname: "+name+"\ndescription: Reads tables.\n---\n"+body+"\n")
}

// put writes a file below a folder.
func put(t *testing.T, dir, path, text string) {
	t.Helper()
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path, text)
}

func TestClientHelp(t *testing.T) {
	all := run(t, "--help").stdout
	for _, command := range []string{"login", "logout", "push", "list", "install", "sync", "status", "history", "rollback", "promote", "withdraw"} {
		if !strings.Contains(all, "\n  "+command+" ") {
			t.Errorf("the help has no line for %s", command)
		}
		help := strings.Join(strings.Fields(run(t, command, "--help").stdout), " ")
		if command != "logout" && (!strings.Contains(help, "2 a flag or an argument is not valid") || !strings.Contains(help, "($WHETSTONE_API_KEY)")) {
			t.Errorf("the help of %s has no exit codes or no key:\n%s", command, help)
		}
		for code, commands := range map[string][]string{"3 local edits": {"install", "sync"}, "4 not everything": {"status"}} {
			if strings.Contains(help, code) != slices.Contains(commands, command) {
				t.Errorf("the help of %s has the exit code %q of other commands, or lacks its own:\n%s", command, code, help)
			}
		}
	}
}
