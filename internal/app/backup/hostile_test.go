package backup_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/whetstone-dev/whetstone/internal/app/backup"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// craft makes a backup of empty tables by hand, with sums that are right, and with other
// members of that content.
func craft(t *testing.T, manifest backup.Manifest, content string, members ...tar.Header) []byte {
	t.Helper()
	var file bytes.Buffer
	z, err := zstd.NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	var sums strings.Builder
	add := func(m tar.Header, content string) {
		m.Mode, m.Size = 0o600, int64(len(content))
		if m.Typeflag != 0 {
			m.Size, content = 0, ""
		}
		err := w.WriteHeader(&m)
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(content)), m.Name)
	}
	add(tar.Header{Name: "whetstone.json"}, asJSON(t, manifest.Header))
	for _, m := range members {
		add(m, content)
	}
	list := sums.String()
	add(tar.Header{Name: "SHA256SUMS/000001"}, list)
	manifest.Sums = fmt.Sprintf("%x", sha256.Sum256([]byte(list)))
	add(tar.Header{Name: "manifest.json"}, asJSON(t, manifest))
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHostile(t *testing.T) {
	header := backup.Header{Format: 1, Schema: store.Newest(), Engine: "sqlite", Version: "test"}
	for name, m := range map[string]tar.Header{
		"blob above":            {Name: "blobs/../../escaped"},
		"blob of root":          {Name: "blobs//tmp/escaped"},
		"blob with backslash":   {Name: `blobs/..\escaped`},
		"repository above":      {Name: "repositories/../escaped"},
		"repository far above":  {Name: "repositories/a/b.git/../../../../escaped"},
		"repository of root":    {Name: "repositories//escaped"},
		"the hooks' file":       {Name: "repositories/hook.json"},
		"link":                  {Name: "repositories/a/b.git/HEAD", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		"hard link":             {Name: "blobs/a", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		"device":                {Name: "blobs/a", Typeflag: tar.TypeChar},
		"folder":                {Name: "blobs/a", Typeflag: tar.TypeDir},
		"somewhere else":        {Name: "escaped"},
		"of root":               {Name: "/escaped"},
		"rows that are none":    {Name: "database/users/000001"},
		"jobs that are none":    {Name: "jobs/000001"},
		"mark of a restore":     {Name: "blobs/restore/unfinished"},
		"more than is promised": {Name: "blobs/a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "sqlite", "files")
			p.Unverified = true // somebody who trusts it is safe all the same
			p.Repositories = filepath.Join(t.TempDir(), "data", "repos")
			_, err := backup.Restore(t.Context(), p, bytes.NewReader(craft(t, backup.Manifest{Header: header}, "hostile", m)))
			if !fault.Is(err, fault.Malformed) {
				t.Errorf("got %v, want a Malformed fault", err)
			}
			for file := range files(t, filepath.Dir(filepath.Dir(p.Repositories))) {
				t.Errorf("%s was written", file)
			}
			if _, err := os.Stat("/escaped"); err == nil {
				t.Error("/escaped was written")
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		name   string
		header backup.Header
		kind   fault.Kind
		says   string
	}{
		{"other form", backup.Header{Format: 2, Schema: 1, Version: "v9"}, fault.Malformed, "use the version of Whetstone that made it (v9)"},
		{"newer schema", backup.Header{Format: 1, Schema: store.Newest() + 1, Version: "v9"}, fault.Conflict, "restore it with Whetstone v9 or newer"},
		{"no schema", backup.Header{Format: 1}, fault.Malformed, "damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t, "sqlite", "files")
			p.Unverified = true
			_, err := backup.Restore(t.Context(), p, bytes.NewReader(craft(t, backup.Manifest{Header: c.header}, "")))
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

// TestOlderSchema restores what an older version saved: its tables are filled
// as they were, the newer migrations follow, and its jobs find the table that they have now.
func TestOlderSchema(t *testing.T) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, engine, "files")
			p.Unverified = true
			header := backup.Header{Format: 1, Schema: 1, Engine: "sqlite", Version: "old"}
			m := backup.Manifest{Header: header, Tables: map[string]int64{}, Jobs: 1}
			for _, name := range []string{"organisations", "users", "api_keys", "device_codes", "service_secrets"} {
				m.Tables[name] = 0
			}
			const job = `{"kind": "test.old", "args": {}, "attempt": 0, "max_attempts": 3, "run_at": "2026-01-02T03:04:05Z", "created_at": "2026-01-02T03:04:05Z"}`
			file := craft(t, m, job, tar.Header{Name: "jobs/000001"})
			if _, err := backup.Restore(t.Context(), p, bytes.NewReader(file)); err != nil {
				t.Fatal(err)
			}
			err := p.DB.Snapshot(t.Context(), func(tx *store.Tx) error {
				version, err := tx.SchemaVersion(t.Context())
				if version != store.Newest() {
					t.Errorf("schema %d, want %d", version, store.Newest())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if counts, err := p.Jobs.Counts(t.Context()); err != nil || len(counts) != 1 || counts[0].Kind != "test.old" || counts[0].Waiting != 1 {
				t.Errorf("the jobs are %+v: %v", counts, err)
			}
		})
	}
}
