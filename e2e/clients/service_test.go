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

// site is the service that all tests share: each has an organisation of its own.
var site struct {
	once   sync.Once
	dir    string
	binary string
	server *servertest.Server
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
	site.server, site.err = servertest.Start(servertest.Command{
		Path: site.binary, Args: []string{"serve", "--addr", "127.0.0.1:0", "--data", filepath.Join(site.dir, "data")}, Dir: site.dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + site.dir}, Stdout: io.Discard,
	})
}

// An organisation of the service, with the key of its owner.
type organisation struct {
	*apptest.Caller
	name string
}

// newOrganisation is for tests of many runs of a client, which make e2e-clients
// runs: they take minutes.
func newOrganisation(t *testing.T, name string) organisation {
	t.Helper()
	if os.Getenv("WHETSTONE_NPM") != "required" {
		t.Skip("`make e2e-clients` runs this")
	}
	site.once.Do(startSite)
	if site.err != nil {
		t.Fatal(site.err)
	}
	admin(t, "org", "create", name, "--plan", "team")
	var made struct {
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal(admin(t, "key", "create", "--org", name, "--role", "owner", "--json"), &made); err != nil {
		t.Fatal(err)
	}
	return organisation{&apptest.Caller{T: t, URL: site.server.URL, Key: made.APIKey}, name}
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
func admin(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), site.binary, append(args, "--data", filepath.Join(site.dir, "data"))...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("whetstone %s: %v\n%s", strings.Join(args, " "), err, &stderr)
	}
	return out
}
