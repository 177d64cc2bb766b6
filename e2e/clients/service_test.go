package clients_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// A service is a server with its data.
type service struct {
	data   string
	server *servertest.Server
}

func startService(dir string) (service, error) {
	data := filepath.Join(dir, "data")
	server, err := servertest.Start(servertest.Command{
		Path: site.binary, Args: []string{"serve", "--addr", "127.0.0.1:0", "--data", data}, Dir: dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Stdout: io.Discard,
	})
	return service{data, server}, err
}

// site is the service that most tests share: each has an organisation of its own.
var site struct {
	service
	once   sync.Once
	dir    string
	binary string
	err    error
}

func TestMain(m *testing.M) {
	status := m.Run()
	if site.server != nil {
		if err := site.server.Terminate(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	if site.dir != "" {
		_ = os.RemoveAll(site.dir) // only a temporary folder
	}
	os.Exit(status)
}

func startSite() {
	if site.dir, site.err = os.MkdirTemp("", "whetstone-clients"); site.err != nil {
		return
	}
	if site.binary, site.err = servertest.Build(site.dir); site.err != nil {
		return
	}
	site.service, site.err = startService(site.dir)
}

// needClients skips a test of clients from npm, unless make e2e-clients runs it: to
// install them takes minutes.
func needClients(t *testing.T) {
	t.Helper()
	if os.Getenv("WHETSTONE_NPM") != "required" {
		t.Skip("`make e2e-clients` runs this")
	}
}

// needSite is for tests of clients that use the service which most of them share.
func needSite(t *testing.T) {
	t.Helper()
	needClients(t)
	site.once.Do(startSite)
	if site.err != nil {
		t.Fatal(site.err)
	}
}

// newService starts one for a test that must have the public shelf to itself.
func newService(t *testing.T) service {
	t.Helper()
	needSite(t)
	s, err := startService(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.server.Terminate() })
	return s
}

// An organisation of a service, with the key of its owner.
type organisation struct {
	*apptest.Caller
	name string
}

func newOrganisation(t *testing.T, name string) organisation {
	t.Helper()
	needSite(t)
	return site.newOrganisation(t, name)
}

func (s service) newOrganisation(t *testing.T, name string) organisation {
	t.Helper()
	s.admin(t, "org", "create", name, "--plan", "team")
	var made struct {
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal(s.admin(t, "key", "create", "--org", name, "--role", "owner", "--json"), &made); err != nil {
		t.Fatal(err)
	}
	return organisation{&apptest.Caller{T: t, URL: s.server.URL, Key: made.APIKey}, name}
}

// locked runs `whetstone status --lock` on what a client has installed, which must say
// e.g. "pdf 1.0.0 of 1.1.0 behind" of each skill and keep the token to itself.
func locked(t *testing.T, org *apptest.Caller, path string, want ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), site.binary, "status", "--lock", path, "--json", "--server", org.URL, "--api-key", org.Key)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, _ := cmd.Output() // its status is 4 if something is behind
	var files []struct {
		Skills []struct {
			Name, Status, Version string
			Latest                string `json:"latest_version"`
		}
	}
	if err := json.Unmarshal(out, &files); err != nil || bytes.Contains(out, []byte("/ct_")) || bytes.Contains(stderr.Bytes(), []byte("ct_")) {
		t.Fatalf("status --lock %s: %v\n%s\n%s", path, err, out, &stderr)
	}
	got := []string{}
	for _, f := range files {
		for _, s := range f.Skills {
			got = append(got, s.Name+" "+s.Version+" of "+s.Latest+" "+s.Status)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status --lock %s (- want, + got):\n%s", path, diff)
	}
}

// admin runs a command of the operator.
func (s service) admin(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), site.binary, append(args, "--data", s.data)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("whetstone %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}
