package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	installations = 1_000
	behindEvery   = 10 // one in so many installations has an update
	fillChunk     = 5_000
)

// A filler writes many entries straight into the database of a running server,
// and some of them as installed by the holder of the key.
type filler struct {
	db            *store.DB
	orgID, userID string
	at            int64
	every         int // one in so many entries is installed
	items         []syncItem
}

// A syncItem is what the client says of one installation.
type syncItem struct {
	EntryID string `json:"entry_id"`
	Hash    string `json:"current_version_hash"`
}

// fill writes the entries and returns the request that asks about those that
// are installed.
func fill(ctx context.Context, s *server, url string, entries int) ([]byte, error) {
	var me struct {
		User, Organisation struct{ ID string }
	}
	if err := s.get(ctx, "/api/v1/me", &me); err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 2})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	f := &filler{
		db: db, orgID: me.Organisation.ID, userID: me.User.ID,
		at: store.Micros(time.Now()), every: entries / installations,
	}
	for first := 0; first < entries; first += fillChunk {
		if err := f.chunk(ctx, first, min(first+fillChunk, entries)); err != nil {
			return nil, err
		}
	}
	if err := settle(ctx, db); err != nil {
		return nil, err
	}
	return f.request(ctx, s)
}

// settle does what PostgreSQL does by itself a while after many rows came, so
// that it does not do so during the measurement. SQLite does nothing then.
func settle(ctx context.Context, db *store.DB) error {
	if db.Dialect().Name() != "postgres" {
		return nil
	}
	_, err := db.Exec(ctx, "VACUUM ANALYZE")
	return err
}

func (f *filler) request(ctx context.Context, s *server) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"installations": f.items})
	if err != nil {
		return nil, err
	}
	req, err := s.request(ctx, http.MethodPost, "/api/v1/registry/sync", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return wire(req)
}

// An entry, version or installation as it is written: what all share is left out.
type (
	filledEntry        struct{ id, name, versionID, hash string }
	filledVersion      struct{ id, entryID, version, hash string }
	filledInstallation struct{ id, entryID, hash string }
)

// chunk writes the entries from first up to end. Those that are installed have
// an older version too, since a client may be behind.
func (f *filler) chunk(ctx context.Context, first, end int) error {
	var entries []filledEntry
	var versions []filledVersion
	var installed []filledInstallation
	for n := first; n < end; n++ {
		e := filledEntry{newID(), fmt.Sprintf("bench-%06d", n), newID(), contentHash(n, "2.0.0")}
		entries = append(entries, e)
		current := filledVersion{e.versionID, e.id, "2.0.0", e.hash}
		versions = append(versions, current)
		if n%f.every != 0 {
			continue
		}
		older := filledVersion{newID(), e.id, "1.0.0", contentHash(n, "1.0.0")}
		versions = append(versions, older)
		has := current
		if len(f.items)%behindEvery == 0 {
			has = older
		}
		installed = append(installed, filledInstallation{newID(), e.id, has.hash})
		f.items = append(f.items, syncItem{e.id, has.hash})
	}
	return f.db.InTx(ctx, func(tx *store.Tx) error {
		for _, table := range []store.Bulk{f.entries(entries), f.versions(versions), f.installations(installed)} {
			if _, err := table.Insert(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *filler) entries(rows []filledEntry) store.Bulk {
	return store.Bulk{Table: "registry_entries", Columns: []store.Column{
		column("id", rows, func(e filledEntry) string { return e.id }),
		column("name", rows, func(e filledEntry) string { return e.name }),
		column("current_version_id", rows, func(e filledEntry) string { return e.versionID }),
		column("current_hash", rows, func(e filledEntry) string { return e.hash }),
		same("current_version", rows, "2.0.0"),
		same("org_id", rows, f.orgID), same("created_by", rows, f.userID), same("entry_type", rows, "skill"),
		same("description", rows, "Filled in by the benchmark."), same("visibility", rows, "org"),
		same("installation_count", rows, int64(0)), same("created_at", rows, f.at), same("updated_at", rows, f.at),
	}}
}

func (f *filler) versions(rows []filledVersion) store.Bulk {
	return store.Bulk{Table: "registry_versions", Columns: []store.Column{
		column("id", rows, func(v filledVersion) string { return v.id }),
		column("entry_id", rows, func(v filledVersion) string { return v.entryID }),
		column("version", rows, func(v filledVersion) string { return v.version }),
		column("content_hash", rows, func(v filledVersion) string { return v.hash }),
		column("tree_digest", rows, func(v filledVersion) string { return v.hash }),
		column("archive_key", rows, func(v filledVersion) string { return "registry/" + v.hash[:2] + "/" + v.hash + "." + v.id }),
		same("size", rows, int64(assetBytes)), same("description", rows, ""), same("file_manifest", rows, "[]"),
		same("source", rows, "cli"), same("rolled_back", rows, false),
		same("pushed_by", rows, f.userID), same("pushed_at", rows, f.at),
	}}
}

func (f *filler) installations(rows []filledInstallation) store.Bulk {
	return store.Bulk{Table: "registry_installations", Columns: []store.Column{
		column("id", rows, func(i filledInstallation) string { return i.id }),
		column("entry_id", rows, func(i filledInstallation) string { return i.entryID }),
		column("content_hash", rows, func(i filledInstallation) string { return i.hash }),
		same("org_id", rows, f.orgID), same("user_id", rows, f.userID),
		same("device_id", rows, "bench"), same("install_path", rows, "skills"),
		same("installed_at", rows, f.at), same("last_seen_at", rows, f.at),
	}}
}

// column takes a column out of rows.
func column[R any, T string | int64 | bool](name string, rows []R, of func(R) T) store.Column {
	values := make([]T, len(rows))
	for i, r := range rows {
		values[i] = of(r)
	}
	return store.Col(name, values)
}

// same is a column with one value in all rows.
func same[R any, T string | int64 | bool](name string, rows []R, value T) store.Column {
	return column(name, rows, func(R) T { return value })
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func contentHash(n int, version string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", n, version))
	return hex.EncodeToString(sum[:])
}
