//go:build unix

package app_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host/git"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestSecondServer starts a second process on one data folder, with every kind
// of data that only one may write.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := []string{"--data", t.TempDir()}
			if name == "postgres" {
				flags = append(flags, "--database-url", storetest.EmptyURL(t, "postgres"))
			}
			c := settings(t, flags...)
			first := start(t, c)
			hook := git.HookConfigPath(git.Dir(c.Data, ""))
			before, err := os.ReadFile(hook)
			if err != nil {
				t.Fatal(err)
			}
			_, err = app.New(t.Context(), options(settings(t, flags...), io.Discard))
			want := fmt.Sprintf("is in use by another `whetstone serve` (process %d at %s): stop that one", os.Getpid(), first.url)
			if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), want) {
				t.Errorf("a second server: %v, want %q", err, want)
			}
			if after, err := os.ReadFile(hook); err != nil || string(after) != string(before) {
				t.Errorf("hook.json was %s and is %s, %v", before, after, err)
			}
			if f := finding(examine(t, c), "server"); f.Status != invariants.Good || !strings.Contains(f.Message, first.url) {
				t.Errorf("the doctor says %+v", f)
			}
			if err := os.WriteFile(hook, []byte(`{"url":"http://127.0.0.1:1"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			if f := finding(examine(t, c), "server"); f.Status != invariants.Advice || !strings.Contains(f.Message, "reach http://127.0.0.1:1: restart it") {
				t.Errorf("the doctor says of another's hooks %+v", f)
			}
			// Administration goes on beside the server.
			db, err := app.OpenDatabase(t.Context(), c.Database)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (&auth.Service{DB: db}).CreateOrg(t.Context(), "acme", access.Team); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if err := first.stop(); err != nil {
				t.Fatal(err)
			}
			if f := finding(examine(t, c), "server"); f.Status != invariants.Good || !strings.Contains(f.Message, "none runs") {
				t.Errorf("after the stop the doctor says %+v", f)
			}
			start(t, settings(t, flags...))
		})
	}
}

// TestSharedFolder lets processes on PostgreSQL and S3 have one data folder, in
// which they keep nothing: the first that answers has the hooks.
func TestSharedFolder(t *testing.T) {
	t.Parallel()
	flags := append(cluster(t), "--secret-key", sealtest.Key(0), "--public-url", "")
	hooks := func() string {
		c, err := git.ReadHookConfig(git.HookConfigPath(git.Dir(settings(t, flags...).Data, "")))
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
		return c.URL
	}
	start(t, settings(t, append(flags, "--roles", "worker")...))
	if got := hooks(); got != "" {
		t.Errorf("the hooks reach %s, which is a worker", got)
	}
	first := start(t, settings(t, append(flags, "--roles", "web")...))
	second := start(t, settings(t, append(flags, "--roles", "web")...))
	if got := hooks(); got != first.url || got == second.url {
		t.Errorf("the hooks reach %s, want the first process %s", got, first.url)
	}
}

// TestDataIsPrivate makes a data folder under a umask that takes nothing away.
func TestDataIsPrivate(t *testing.T) {
	defer setUmask(0)()
	data := filepath.Join(t.TempDir(), "data")
	if err := start(t, settings(t, "--data", data)).stop(); err != nil {
		t.Fatal(err)
	}
	wantPrivate(t, data)
	for _, name := range []string{"whetstone.db", "whetstone.db-wal", "secret.key", "blobs"} {
		if err := os.Chmod(filepath.Join(data, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, settings(t, "--data", data))
	wantPrivate(t, data)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	wantPrivate(t, data)
}

func wantPrivate(t *testing.T, dir string) {
	t.Helper()
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStopLeavesOneFile copies the database file of a stopped service, and
// nothing beside it.
func TestStopLeavesOneFile(t *testing.T) {
	c := settings(t)
	s := start(t, c)
	key := s.FirstKey
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(c.Data, "whetstone.db"))
	if err != nil {
		t.Fatal(err)
	}
	if log, err := os.Stat(filepath.Join(c.Data, "whetstone.db-wal")); err == nil && log.Size() > 0 {
		t.Errorf("%d bytes are left in the write-ahead log", log.Size())
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(copied, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), store.Options{URL: "sqlite:" + copied})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(t.Context(), `SELECT COUNT(*) FROM api_keys WHERE hash = $1`, hash(key))
	if n, err := store.One(rows, err, "Count", store.Value[int]); err != nil || n != 1 {
		t.Errorf("the copy has %d keys, %v", n, err)
	}
}

// setUmask changes the umask of the process and returns what puts it back.
func setUmask(mask int) func() {
	before := syscall.Umask(mask)
	return func() { syscall.Umask(before) }
}
