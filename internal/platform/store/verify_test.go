package store_test

import (
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

func TestClock(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		got, err := db.Clock(t.Context())
		if off := time.Until(got).Abs(); err != nil || off > time.Minute {
			t.Errorf("the database's clock is %v off, %v", off, err)
		}
		if wrong, err := store.VerifyIntegrity(t.Context(), db, false); err != nil || len(wrong) > 0 {
			t.Errorf("Verify of a new database: %v, %v", wrong, err)
		}
	})
}

// TestVerify has a violated foreign key and corrupt pages. Only on SQLite can a
// test make them.
func TestVerify(t *testing.T) {
	path := strings.TrimPrefix(storetest.URL(t, "sqlite"), "sqlite:")
	raw, err := sql.Open("sqlite", path) // without foreign keys
	if err != nil {
		t.Fatal(err)
	}
	_, err = raw.ExecContext(t.Context(), `
		INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ('u', 'nowhere', 'e', 'n', 'owner', 1)`)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	wantWrong(t, path, "1 rows of users point at rows of organisations")

	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 40 << 12; i < len(content)-8<<12; i++ {
		content[i] ^= 0x55
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	wantWrong(t, path, "")
}

// wantWrong checks that Verify reports a defect that contains these words.
func wantWrong(t *testing.T, path, words string) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{URL: "sqlite:" + path, MaxConns: 2})
	if err != nil {
		return // it cannot even be opened
	}
	defer db.Close()
	wrong, err := store.VerifyIntegrity(t.Context(), db, true)
	if err == nil && (len(wrong) == 0 || !strings.Contains(strings.Join(wrong, " "), words)) {
		t.Errorf("Verify: %v, want %q", wrong, words)
	}
}
