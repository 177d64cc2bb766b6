package cluster_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// checkFiles makes the files of a site a day old and checks that the scheduled
// sweeps delete those without a reference. All processes are replaced by one.
func checkFiles(t *testing.T, s *site) {
	t.Helper()
	db := s.open()
	if strings.HasPrefix(s.database, "sqlite:") {
		rows, err := db.Query(t.Context(), `PRAGMA integrity_check`)
		verdict, err := store.One(rows, err, "Verdict", store.Value[string])
		if err != nil || verdict != "ok" {
			t.Errorf("the integrity of the database: %s, %v", verdict, err)
		}
	}
	if s.blobs == "" {
		return
	}
	for _, server := range s.all() {
		s.forget(server)
		if err := server.Terminate(); err != nil {
			t.Fatal(err)
		}
	}
	letADayGoBy(t, s, db)
	s.start()
	due := func() int { return count(t, db, `SELECT COUNT(*) FROM job_schedules WHERE next_at = 0`) }
	for deadline := time.Now().Add(settle); due() > 0 && time.Now().Before(deadline); {
		pause(t, 20*time.Millisecond)
	}
	awaitIdle(t, s)
	wantNoOrphans(t, s, db)
}

// count is the number that a query returns.
func count(t *testing.T, db *store.DB, query string, args ...any) int {
	t.Helper()
	rows, err := db.Query(t.Context(), query, args...)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// letADayGoBy makes all files older than blob.OrphanAge, within which a file may
// belong to a transaction that has not committed, and all schedules due.
func letADayGoBy(t *testing.T, s *site, db *store.DB) {
	t.Helper()
	day := blob.OrphanAge + time.Hour
	if _, err := db.Exec(t.Context(), `UPDATE job_schedules SET next_at = 0`); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-day)
	err := filepath.WalkDir(s.blobs, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(name, before, before)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantNoOrphans checks that each file is referenced. Raw telemetry is left out,
// since it is deleted by age.
func wantNoOrphans(t *testing.T, s *site, db *store.DB) {
	t.Helper()
	checked := 0
	err := fs.WalkDir(os.DirFS(s.blobs), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(name, "objects/telemetry/") {
			return err
		}
		checked++
		key, hash := strings.TrimPrefix(name, "objects/"), path.Base(name)
		used := 0
		switch {
		case strings.HasPrefix(key, "registry/"):
			used = count(t, db, `SELECT COUNT(*) FROM registry_versions WHERE archive_key = $1 OR canonical_key = $1`, key)
		case strings.HasPrefix(key, "sources/"):
			used = count(t, db, `SELECT COUNT(*) FROM source_snapshots WHERE content_hash = $1`, hash)
		}
		if used == 0 {
			t.Errorf("nobody refers to %s", name)
		}
		return nil
	})
	if err != nil || checked == 0 {
		t.Errorf("%d files were looked at, %v", checked, err)
	}
}
