package app_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// beforeQuotas is the last schema in which nobody counted bytes.
const beforeQuotas = 23

// TestUpgradeCountsBytes brings up a database with archives, snapshots and
// bundles that nobody has counted.
func TestUpgradeCountsBytes(t *testing.T) {
	each(t, storetest.EmptyURL, func(t *testing.T, flags []string) {
		c := settings(t, flags...)
		db, err := store.Open(t.Context(), store.Options{URL: c.URL(), MaxConns: 4})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.MigrateTo(t.Context(), beforeQuotas); err != nil {
			t.Fatal(err)
		}
		org, err := (&auth.Service{DB: db, Log: slog.New(slog.DiscardHandler)}).CreateOrg(t.Context(), "acme", access.Team)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{
			`INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ('u', $1, 'a@b', '', 'owner', 1)`,
			`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, current_version_id, current_version, current_hash,
				installation_count, created_by, created_at, updated_at)
			VALUES ('e', $1, 'e', 'skill', '', 'org', 'v', '1.0.0', 'hh', 0, 'u', 1, 1), ('f', $1, 'f', 'skill', '', 'org', 'w', '1.0.0', 'hh', 0, 'u', 1, 1)`,
			`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description, file_manifest, source, rolled_back, pushed_by, pushed_at)
			VALUES ('v', 'e', '1.0.0', 'hh', '', 100, '', '[]', 'cli', FALSE, 'u', 1), ('w', 'f', '1.0.0', 'hh', '', 100, '', '[]', 'cli', FALSE, 'u', 1),
				('x', 'f', '1.1.0', 'ii', '', 7, '', '[]', 'cli', FALSE, 'u', 1)`,
			`INSERT INTO cloud_sources (id, org_id, label, source_type, suggested_at, created_by, created_at) VALUES ('s', $1, '', 'upload', 1, 'u', 1)`,
			`INSERT INTO source_snapshots (id, org_id, source_id, content_hash, total_bytes, files, skill_name, description, runnable, created_by, created_at)
			VALUES ('n', $1, 's', 'hh', 20, '[]', '', '', FALSE, 'u', 1), ('o', $1, 's', 'ii', 30, '[]', '', '', FALSE, 'u', 1)`,
			`INSERT INTO community_bundles (id, org_id, creator_id, skill_name, digest, contributor_hash, schema_version, agent_type, sanitization_level,
				positive_queries, eval_entries, total_sessions, graded_sessions, deployed_proposals, bundle, created_at, submitted_at)
			VALUES ('b', $1, 'u', '', '', '', '', '', '', 0, 0, 0, 0, 0, '{"ä":1}', 1, 1)`,
			`INSERT INTO telemetry_pushes (id, org_id, user_id, push_id, blob_key, accepted, rejected, received_at) VALUES ('p', $1, 'u', 'p', 'k', 0, 0, 1)`,
		} {
			var args []any
			if strings.Contains(statement, "$1") {
				args = []any{org.ID}
			}
			if _, err := db.Exec(t.Context(), statement, args...); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := (&quota.Service{DB: db}).Usage(t.Context(), org.ID)
		if want := int64(100 + 100 + 7 + 20 + 30 + 8); got.Used != want || err != nil {
			t.Errorf("%d bytes are used, %v; want %d", got.Used, err, want)
		}
		for _, f := range examine(t, c) {
			if f.Check == "quota" && f.Status != invariants.Good {
				t.Errorf("the doctor finds %+v", f)
			}
		}
	})
}
