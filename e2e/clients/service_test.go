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
