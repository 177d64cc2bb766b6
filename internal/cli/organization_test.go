package cli_test

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

func TestOrganizationExport(t *testing.T) {
	owner := startService(t).loggedIn(t)
	file := filepath.Join(t.TempDir(), "acme.zip")
	var made struct {
		File, SHA256      string
		Size, Rows, Blobs int64
	}
	exported := owner.run(t, "organization", "export", file, "--json")
	exported.want(t, term.ExitOK, "")
	text := exported.stdout
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != made.SHA256 || int64(len(content)) != made.Size || made.Rows == 0 || made.File != file {
		t.Errorf("%s, for %d bytes with the hash %x", text, len(content), sum)
	}
	r, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Open("manifest.json"); err != nil {
		t.Error(err)
	}
	owner.run(t, "organization", "export", file).want(t, term.ExitUsage, "exists; choose another name")
	owner.run(t, "organization", "export", filepath.Join(file, "x")).want(t, term.ExitUsage, "cannot be written")
}

func TestOrganizationDelete(t *testing.T) {
	owner := startService(t).loggedIn(t)
	owner.run(t, "organization", "delete", "default").want(t, term.ExitFailed, "Nothing was deleted")
	owner.run(t, "organization", "delete", "other", "--yes").want(t, term.ExitUsage, "confirm must be the name of the organisation, default")
	owner.run(t, "organization", "delete", "default", "--yes").want(t, term.ExitOK, "")
	owner.run(t, "member", "list").want(t, term.ExitDenied, "")
	// No file is left of an export that was refused.
	file := filepath.Join(t.TempDir(), "late.zip")
	owner.run(t, "organization", "export", file).want(t, term.ExitDenied, "")
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file: %v", err)
	}
}
