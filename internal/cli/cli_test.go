package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestMain keeps the environment of the developer out of the tests: one
// could name a real database.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Run(context.Background(), &term.Program{Version: "1.2.3", Stdout: os.Stdout, Stderr: os.Stderr}, os.Args[1:]))
	}
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "WHETSTONE_") && !strings.HasPrefix(name, "WHETSTONE_TEST_") {
			_ = os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// result is what a run of the command line left behind.
type result struct {
	code           int
	stdout, stderr string
}

func run(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	program := &term.Program{Version: "1.2.3", Stdout: &stdout, Stderr: &stderr}
	code := cli.Run(t.Context(), program, args)
	return result{code, stdout.String(), stderr.String()}
}

// installation is a data folder of a test.
type installation struct{ data string }

func (i installation) run(t *testing.T, args ...string) result {
	t.Helper()
	return run(t, append(args, "--data", i.data)...)
}

// must runs a command that has to work and reads its JSON.
func (i installation) must(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var value map[string]any
	i.mustInto(t, &value, args...)
	return value
}

func (i installation) mustInto(t *testing.T, value any, args ...string) {
	t.Helper()
	r := i.run(t, append(args, "--json")...)
	if r.code != term.ExitOK {
		t.Fatalf("%q: exit code %d: %s", args, r.code, r.stderr)
	}
	r.decode(t, value)
}

func (r result) decode(t *testing.T, value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.stdout), value); err != nil {
		t.Fatalf("%v in %q", err, r.stdout)
	}
}

// newInstallation has the organisation acme on the plan pro.
func newInstallation(t *testing.T) installation {
	t.Helper()
	i := installation{filepath.Dir(strings.TrimPrefix(storetest.URL(t, "sqlite"), "sqlite:"))}
	i.must(t, "org", "create", "acme", "--plan", "pro")
	return i
}

// wantFailure checks for an exit code and one line that says why.
func (r result) wantFailure(t *testing.T, code int, message string) {
	t.Helper()
	want := result{code, "", "whetstone: " + message + "\n"}
	if diff := cmp.Diff(want, r, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string // in the message
	}{
		{"unknown command", []string{"brew"}, "unexpected argument brew"},
		{"unknown subcommand", []string{"org", "brew"}, "unexpected argument brew"},
		{"unknown flag", []string{"serve", "--adr", "x"}, "unknown flag --adr"},
		{"argument missing", []string{"org", "create"}, "<name>"},
		{"flag missing", []string{"user", "create"}, "--email"},
		{"bad plan", []string{"org", "create", "acme", "--plan", "gold"}, "gold"},
		{"bad role", []string{"user", "create", "--email", "a@b.example", "--role", "cook"}, "cook"},
		{"bad number", []string{"serve", "--workers", "many"}, "many"},
		{"bad duration", []string{"serve", "--alert-interval", "soon"}, `"soon" is not a duration like 60s`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, c.args...)
			if r.code != term.ExitUsage || !strings.Contains(r.stderr, c.want) || r.stdout != "" {
				t.Errorf("got %+v, want exit code 2 and %q on standard error", r, c.want)
			}
			if !strings.HasPrefix(r.stderr, "whetstone: ") || !regexp.MustCompile("\nRun `whetstone.* --help` for .*\\.\n$").MatchString(r.stderr) {
				t.Errorf("standard error %q, want it to say where help is", r.stderr)
			}
		})
	}
}

func TestSettingsRefused(t *testing.T) {
	for _, command := range []string{"serve", "doctor"} {
		t.Run(command, func(t *testing.T) {
			r := run(t, command, "--data", t.TempDir(), "--addr", "nowhere", "--workers", "0", "--bootstrap-key", "hunter2")
			r.wantFailure(t, term.ExitUsage, strings.Join([]string{
				"addr must be HOST:PORT, like 127.0.0.1:8080",
				"whetstone: bootstrap-key must be st_live_ or st_test_ and 43 letters and digits",
				"whetstone: workers must lie between 1 and 1000",
			}, "\n"))
		})
	}
	t.Run("database of an unknown kind", func(t *testing.T) {
		r := run(t, "org", "list", "--database-url", "mysql://ada:hunter2@db.example/w")
		r.wantFailure(t, term.ExitUsage, "database-url must be sqlite:PATH or postgres://...")
	})
}

func TestHelp(t *testing.T) {
	r := run(t, "--help")
	if r.code != term.ExitOK || r.stderr != "" {
		t.Errorf("exit code %d, standard error %q; want 0 and nothing", r.code, r.stderr)
	}
	for _, command := range []string{"serve", "migrate", "doctor", "ready", "config", "version", "org", "user", "key", "device", "push", "eval"} {
		if !regexp.MustCompile(`(?m)^  ` + command + `\b.* \S`).MatchString(r.stdout) {
			t.Errorf("the help has no line for %q", command)
		}
	}
	t.Run("of a command", func(t *testing.T) {
		r := run(t, "key", "create", "--help")
		if r.code != term.ExitOK || !strings.Contains(r.stdout, "--permissions") || !strings.Contains(r.stdout, "Create an API key") {
			t.Errorf("got %+v, want the flags of key create", r)
		}
	})
	t.Run("of a command that lacks a flag", func(t *testing.T) {
		if r := run(t, "user", "create", "--help"); r.code != term.ExitOK || r.stderr != "" {
			t.Errorf("got %+v, want help and no complaint", r)
		}
	})
}

func TestVersion(t *testing.T) {
	r := run(t, "version")
	if r.code != term.ExitOK || !regexp.MustCompile(`^whetstone 1\.2\.3 \(go1\.\S+, \w+/\w+\)\n$`).MatchString(r.stdout) {
		t.Errorf("got %+v", r)
	}
	var got map[string]any
	run(t, "version", "--json").decode(t, &got)
	apptest.WantKeys(t, got, "version", "go", "commit")
	if got["version"] != "1.2.3" {
		t.Errorf("version %v, want 1.2.3", got["version"])
	}
}

func TestConfig(t *testing.T) {
	t.Setenv("WHETSTONE_JUDGE_KEY", "hunter2")
	file := t.TempDir() + "/w.toml"
	if err := os.WriteFile(file, []byte("addr = \"127.0.0.1:9000\"\nrepohost-token = \"hunter2\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"config", "--config", file, "--database-url", "postgres://ada:hunter2@db.example/w"}
	r := run(t, args...)
	if r.code != term.ExitOK || strings.Contains(r.stdout+r.stderr, "hunter2") {
		t.Fatalf("got %+v, want no secret", r)
	}
	for _, line := range []string{
		`addr                      = "127.0.0.1:9000"`,
		`database-url              = "postgres://ada:[secret]@db.example/w"`,
		`judge-key                 = "[secret]"`,
		`repohost-token            = "[secret]"`,
		`bootstrap-key             = ""`,
		`plan                      = "team"`,
	} {
		if !slices.Contains(strings.Split(r.stdout, "\n"), line) {
			t.Errorf("no line %s in\n%s", line, r.stdout)
		}
	}
	var settings []struct{ Name, Value string }
	run(t, append(args, "--json")...).decode(t, &settings)
	if len(settings) != strings.Count(r.stdout, "\n") || settings[0].Name != "data" || settings[0].Value != "./data" {
		t.Errorf("JSON has %d settings, the first %+v", len(settings), settings[0])
	}
	t.Setenv("WHETSTONE_CONFIG", file)
	if r := run(t, "version"); r.code != term.ExitOK {
		t.Errorf("a file with settings that the command does not have: %+v", r)
	}
}

func TestConfigShowsWhatItRefuses(t *testing.T) {
	r := run(t, "config", "--addr", "nowhere")
	if r.code != term.ExitUsage || !strings.Contains(r.stdout, `= "nowhere"`) || r.stderr != "whetstone: addr must be HOST:PORT, like 127.0.0.1:8080\n" {
		t.Errorf("got %+v, want the settings and what is wrong with them", r)
	}
}

func TestConfigFileRefused(t *testing.T) {
	file := t.TempDir() + "/w.toml"
	if err := os.WriteFile(file, []byte("adr = 1\nwhat = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, "config", "--config", file)
	r.wantFailure(t, term.ExitUsage, "config: "+file+": no setting is called adr\nwhetstone: config: "+file+": no setting is called what")
	r = run(t, "config", "--config", file+".none")
	r.wantFailure(t, term.ExitUsage, "config: "+file+".none: open "+file+".none: no such file or directory")
}

// watched is a buffer that closes a channel when a word has been written to it.
type watched struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	word string
	seen chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	had := strings.Contains(w.buf.String(), w.word)
	n, err := w.buf.Write(p)
	if !had && strings.Contains(w.buf.String(), w.word) {
		close(w.seen)
	}
	return n, err
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// TestServe starts twice on the same data: the key is printed the first time.
func TestServe(t *testing.T) {
	data := t.TempDir()
	const given = "st_test_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"
	firstKey := regexp.MustCompile(`(?m)^API key of the organisation "default", shown this once: (st_live_[0-9A-Za-z]{43})$`)
	serve := func(more ...string) (stdout, stderr string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out, log := &watched{word: "\x00"}, &watched{word: "listening on http://127.0.0.1:", seen: make(chan struct{})}
		program := &term.Program{Version: "1.2.3", Stdout: out, Stderr: log}
		code := make(chan int, 1)
		go func() {
			code <- cli.Run(ctx, program, append([]string{"serve", "--data", data, "--addr", "127.0.0.1:0", "--log-level", "debug"}, more...))
		}()
		select {
		case <-log.seen:
		case c := <-code:
			t.Fatalf("ended with %d: %s", c, log)
		}
		cancel()
		if c := <-code; c != term.ExitOK {
			t.Errorf("exit code %d: %s", c, log)
		}
		return out.String(), log.String()
	}
	stdout, stderr := serve()
	key := firstKey.FindStringSubmatch(stdout)
	if key == nil {
		t.Fatalf("standard output %q, want the first key", stdout)
	}
	if strings.Count(stdout, key[1]) != 1 || strings.Contains(stderr, key[1]) {
		t.Errorf("the key was written more than once:\n%s%s", stdout, stderr)
	}
	if !regexp.MustCompile(`(?m)^Whetstone 1\.2\.3: http://127\.0\.0\.1:\d+ \(data in ` + regexp.QuoteMeta(data) + `\)$`).MatchString(stdout) {
		t.Errorf("standard output %q, want the address and the data", stdout)
	}
	stdout, stderr = serve()
	if strings.Contains(stdout+stderr, "st_live_") {
		t.Errorf("the second start prints a key:\n%s%s", stdout, stderr)
	}
	stdout, stderr = serve("--data", t.TempDir(), "--bootstrap-key", given)
	if strings.Contains(stdout+stderr, given) || !strings.Contains(stdout, "the one given as --bootstrap-key\n") {
		t.Errorf("a key that was given:\n%s%s", stdout, stderr)
	}
}
