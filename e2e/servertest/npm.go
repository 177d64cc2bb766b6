package servertest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// InstallNPM installs the npm packages of a folder of the repository, e.g.
// "e2e/clients", with scripts/npm-install, and returns the folder of their
// programs. Without npm or its registry the test is skipped, so that `make test`
// needs neither; in CI, with WHETSTONE_REQUIRE=all, and with WHETSTONE_NPM=required,
// as `make e2e-clients` has it, it fails. root is the path of the repository.
func InstallNPM(t *testing.T, root, folder string) string {
	t.Helper()
	unavailable := t.Skipf
	if os.Getenv("CI") != "" || os.Getenv("WHETSTONE_REQUIRE") == "all" || os.Getenv("WHETSTONE_NPM") == "required" {
		unavailable = t.Fatalf
	}
	if _, err := exec.LookPath("npm"); err != nil {
		unavailable("npm is not installed; run `scripts/setup npm`")
	}
	cmd := exec.Command("scripts/npm-install", folder)
	cmd.Dir = root
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		unavailable("the npm packages of %s cannot be installed: %v\n%s", folder, err, failed.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
