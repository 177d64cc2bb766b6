package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

func TestLoginWithKey(t *testing.T) {
	s := startService(t)
	m := newMachine(t)
	m.run(t, "list").want(t, term.ExitDenied, "No API key for http://127.0.0.1:8080; run `whetstone login --server http://127.0.0.1:8080`, or set WHETSTONE_API_KEY")
	m.run(t, "login", "--server", s.url, "--api-key", "st_live_wrong").want(t, term.ExitDenied, s.url+" rejected the key: ")
	if _, err := os.Stat(filepath.Join(m.home, ".config", "whetstone", "credentials.json")); err == nil {
		t.Error("a bad key was stored")
	}

	var out map[string]any
	r := m.answers(t, &out, "login", "--server", s.url+"/", "--api-key", s.key)
	apptest.WantKeys(t, out, "server", "email", "organisation", "plan", "role", "permissions")
	if out["server"] != s.url || out["email"] != "owner@localhost" || out["plan"] != "team" || strings.Contains(r.stdout+r.stderr, s.key) {
		t.Errorf("got %+v, want who it is, without the key", r)
	}
	path := filepath.Join(m.home, ".config", "whetstone", "credentials.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("credentials: %v, %v; want them to be for nobody else", info.Mode(), err)
	}
	if folder, err := os.Stat(filepath.Dir(path)); err != nil || folder.Mode().Perm() != 0o700 {
		t.Errorf("folder of the credentials: %v, %v", folder.Mode(), err)
	}
	if got := m.must(t, "list"); got != "No entries.\n" {
		t.Errorf("list %q", got)
	}

	t.Run("the environment beats the login", func(t *testing.T) {
		t.Setenv("WHETSTONE_API_KEY", "st_live_other")
		m.run(t, "list").want(t, term.ExitDenied, "rejected the key")
	})
	t.Run("no home", func(t *testing.T) {
		t.Setenv("WHETSTONE_API_KEY", s.key)
		t.Setenv("WHETSTONE_SERVER", s.url)
		homeless := machine{home: "", stdin: strings.NewReader("")}
		if got := homeless.must(t, "list"); got != "No entries.\n" {
			t.Errorf("list %q", got)
		}
		homeless.run(t, "login").want(t, term.ExitFailed, "There is no folder to store the login in")
	})
	t.Run("logout", func(t *testing.T) {
		if got := m.must(t, "logout"); !strings.HasPrefix(got, "Logged out of "+s.url) {
			t.Errorf("got %q", got)
		}
		if raw, err := os.ReadFile(path); err != nil || bytes.Contains(raw, []byte(s.key)) {
			t.Errorf("credentials %s, %v", raw, err)
		}
		if got := m.must(t, "logout", "--server", s.url); got != "There was no login at "+s.url+".\n" {
			t.Errorf("got %q", got)
		}
		m.run(t, "list", "--server", s.url).want(t, term.ExitDenied, "No API key for "+s.url)
	})
	t.Run("spoilt", func(t *testing.T) {
		write(t, path, "{")
		m.run(t, "list").want(t, term.ExitFailed, path+" is not valid; remove it and log in again")
	})
}

func TestServerAddress(t *testing.T) {
	m := newMachine(t)
	for _, server := range []string{"whetstone.example", "ftp://whetstone.example", "http://", "http://ada:pw@whetstone.example", "http://w.example?x=1"} {
		m.run(t, "list", "--server", server, "--api-key", "x").want(t, term.ExitUsage, "whetstone: server must be an address like https://whetstone.example\n")
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	m.run(t, "list", "--server", closed.URL, "--api-key", "x").want(t, term.ExitFailed, "whetstone: Cannot reach "+closed.URL+": connection refused\n")
}

// TestDeviceLogin has a person who approves, denies, or does nothing.
func TestDeviceLogin(t *testing.T) {
	actual := startService(t)
	var expired atomic.Bool
	s := actual.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		body := strings.Replace(rec.Body.String(), `"interval":5`, `"interval":1`, 1) // to save time
		if expired.Load() && strings.HasSuffix(r.URL.Path, "/poll") {
			body = `{"status":"expired"}`
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(rec.Code)
		_, _ = w.Write([]byte(body))
	})
	code := regexp.MustCompile(`enter the code ([A-Z]{4}-[A-Z]{4})\n`)
	login := func(t *testing.T, m machine, then func(code string, cancel func())) result {
		t.Helper()
		t.Setenv("HOME", m.home)
		t.Setenv("XDG_CONFIG_HOME", "")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var stdout bytes.Buffer
		stderr := &watched{word: "to cancel.\n", seen: make(chan struct{})}
		program := &term.Program{Version: "1.2.3", Stdout: &stdout, Stderr: stderr, Stdin: strings.NewReader("")}
		exit := make(chan int)
		go func() { exit <- cli.Run(ctx, program, []string{"login", "--server", s.url}) }()
		<-stderr.seen
		then(code.FindStringSubmatch(stderr.String())[1], cancel)
		return result{<-exit, stdout.String(), stderr.String()}
	}
	t.Run("approved", func(t *testing.T) {
		m := newMachine(t)
		r := login(t, m, func(code string, _ func()) { actual.must(t, "device", "approve", code) })
		r.want(t, term.ExitOK, "Open "+actual.url+"/device and enter the code ")
		if found := code.FindStringSubmatch(r.stderr); !strings.Contains(r.stderr, "or open "+actual.url+"/device?code="+found[1]+"\n") {
			t.Errorf("no complete address in %q", r.stderr)
		}
		if r.stdout != "Logged in to "+s.url+" as owner@localhost (owner of default, plan team).\n" {
			t.Errorf("got %q", r.stdout)
		}
		m.must(t, "list")
		var keys []map[string]any
		actual.mustInto(t, &keys, "key", "list")
		host, _ := os.Hostname()
		if name := keys[0]["name"].(string); !strings.HasPrefix(name, "login of whetstone on "+host+"-") {
			t.Errorf("the key is named %q, want it to tell the machine", name)
		}
	})
	t.Run("two machines in turn", func(t *testing.T) {
		approve := func(code string, _ func()) { actual.must(t, "device", "approve", code) }
		laptop, desktop := newMachine(t), newMachine(t)
		login(t, laptop, approve).want(t, term.ExitOK, "")
		login(t, desktop, approve).want(t, term.ExitOK, "")
		laptop.must(t, "list")
		var stored struct {
			Servers map[string]struct {
				APIKey string `json:"api_key"`
			}
		}
		raw, err := os.ReadFile(filepath.Join(laptop.home, ".config", "whetstone", "credentials.json"))
		if err != nil || json.Unmarshal(raw, &stored) != nil {
			t.Fatalf("credentials %s, %v", raw, err)
		}
		login(t, laptop, approve).want(t, term.ExitOK, "")
		laptop.must(t, "list")
		desktop.must(t, "list")
		laptop.run(t, "list", "--api-key", stored.Servers[s.url].APIKey).want(t, term.ExitDenied, "This API key was revoked")
	})
	t.Run("denied", func(t *testing.T) {
		r := login(t, newMachine(t), func(code string, _ func()) { actual.must(t, "device", "deny", code) })
		r.want(t, term.ExitDenied, "whetstone: The login was denied\n")
	})
	t.Run("cancelled", func(t *testing.T) {
		r := login(t, newMachine(t), func(_ string, cancel func()) { cancel() })
		r.want(t, term.ExitInterrupted, "whetstone: The login was cancelled\n")
	})
	t.Run("expired", func(t *testing.T) {
		r := login(t, newMachine(t), func(string, func()) { expired.Store(true) })
		r.want(t, term.ExitDenied, "The login was not approved in time")
	})
}
