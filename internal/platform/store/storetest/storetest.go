// Package storetest gives every test a fresh, migrated database, on SQLite
// and on PostgreSQL.
package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Each runs the test on its Databases, in parallel, each time with a database of
// its own.
func Each(t *testing.T, test func(t *testing.T, db *store.DB)) {
	t.Helper()
	for _, name := range Databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, Open(t, name))
		})
	}
}

// Open returns a fresh, migrated database of one kind: "sqlite" or "postgres".
func Open(t testing.TB, name string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{URL: URL(t, name), MaxConns: 6})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// URL makes a fresh, migrated database and returns its URL, for a test that
// opens it itself, perhaps several times or in another process.
func URL(t testing.TB, name string) string {
	t.Helper()
	avoidMidnight()
	if name == "postgres" {
		return cloneTemplate(t)
	}
	template, err := sqliteTemplate()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "whetstone.db")
	if err := os.WriteFile(path, template, 0o600); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + path
}

// EmptyURL returns the URL of a database without tables.
func EmptyURL(t testing.TB, name string) string {
	t.Helper()
	if name == "sqlite" {
		return "sqlite:" + filepath.Join(t.TempDir(), "whetstone.db")
	}
	return createDatabase(t, "template0")
}

// sqliteTemplate is the bytes of a migrated database, made once a process, or
// once for all that share the folder which WHETSTONE_TEST_TEMPLATES names.
var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	shared := os.Getenv("WHETSTONE_TEST_TEMPLATES")
	if shared != "" {
		if made, err := os.ReadFile(filepath.Join(shared, "sqlite.db")); err == nil {
			return made, nil
		}
	}
	dir, err := os.MkdirTemp(shared, "storetest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "template.db")
	if err := migrate("sqlite:" + path); err != nil {
		return nil, err
	}
	made, err := os.ReadFile(path)
	if err == nil && shared != "" {
		err = os.Rename(path, filepath.Join(shared, "sqlite.db")) // whole, or not at all
	}
	return made, err
})

func migrate(url string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 4})
	if err != nil {
		return err
	}
	if err := db.Migrate(ctx); err != nil {
		_ = db.Close()
		return err
	}
	return db.Close()
}

// cloneTemplate creates a database from a template, which is migrated once for
// each server: its name contains the hash of the migrations, so test processes
// share it.
func cloneTemplate(t testing.TB) string {
	t.Helper()
	s := postgres(t)
	s.template.Do(func() { s.templateErr = s.makeTemplate(templateName(t)) })
	if s.templateErr != nil {
		t.Fatal(s.templateErr)
	}
	return createDatabase(t, templateName(t))
}

func createDatabase(t testing.TB, template string) string {
	t.Helper()
	s := postgres(t)
	name := "t_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	// Copying files takes half the processor time of copying pages through the log. The
	// server's log says whose statements those of the database are (tools/covered).
	if err := s.exec(`CREATE DATABASE ` + name + ` TEMPLATE ` + template + ` STRATEGY FILE_COPY -- ` + testID(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.exec(`DROP DATABASE ` + name + ` WITH (FORCE)`); err != nil {
			t.Error(err)
		}
	})
	if s.pooler != nil {
		return s.pooler.URL(name)
	}
	return s.url(name)
}

func templateName(t testing.TB) string {
	t.Helper()
	hash := sha256.New()
	files := store.Migrations("postgres")
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		fmt.Fprintf(hash, "%s %d\n%s", path, len(content), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("template_%x", hash.Sum(nil)[:8])
}

// Upgrade makes a database look as if a newer binary had migrated it to a version
// that works with binaries from oldest on. With 0 it stores no oldest binary.
func Upgrade(t testing.TB, db *store.DB, version, oldest int64) {
	t.Helper()
	_, err := db.Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)`, version, true)
	if err == nil && oldest > 0 {
		_, err = db.Exec(t.Context(), `INSERT INTO schema_compat (version, oldest) VALUES ($1, $2)`, version, oldest)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// avoidMidnight lets no test begin shortly before midnight (UTC): many compare
// what the service counts by day with the date of today.
func avoidMidnight() {
	const day = 24 * time.Hour
	if left := day - time.Duration(time.Now().UnixNano())%day; left < 30*time.Second {
		time.Sleep(left)
	}
}
