// Package clients_test runs programs of others, as npm has them, on what the
// service serves.
package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

const (
	root = "../.."
	// document is what the service serves as /openapi.json; a test of
	// internal/app keeps it so.
	document = root + "/internal/app/testdata/openapi.json"
)

// run runs a program that npm installed, which must end well.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	needClients(t)
	programs := servertest.InstallNPM(t, root, "e2e/clients")
	cmd := exec.Command(filepath.Join(programs, name), args...)
	cmd.Env = append(os.Environ(), "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"),
		"REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true") // tests talk to loopback only
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// TestOpenAPILint checks the document by Redocly's recommended rules.
func TestOpenAPILint(t *testing.T) {
	run(t, "redocly", "lint", "--max-problems=20", document)
}

// TestTypeScriptClient generates types from the document and compiles a client
// against them: what is optional, what may be null, and which bodies there are.
func TestTypeScriptClient(t *testing.T) {
	dir := t.TempDir()
	client, err := os.ReadFile("testdata/client.ts")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client.ts"), client, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "openapi-typescript", document, "--output", filepath.Join(dir, "openapi.ts"))
	run(t, "tsc", "--strict", "--noEmit", "--target", "es2022", filepath.Join(dir, "client.ts"))
}
