package registry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestMigrationOfVersions has entries from before paths and names were kept.
func TestMigrationOfVersions(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, engine), MaxConns: 3})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.MigrateTo(t.Context(), 23, jobs.Tables); err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{
				`INSERT INTO organisations (id, name, plan, created_at) VALUES ('o1', 'first', 'pro', 0), ('o2', 'second', 'pro', 0)`,
				`INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ('u1', 'o1', 'a@example.org', '', 'owner', 0), ('u2', 'o2', 'b@example.org', '', 'owner', 0)`,
				`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, current_version_id, current_version,
					current_hash, installation_count, created_by, created_at, updated_at) VALUES
					('e1', 'o1', 'pdf', 'skill', '', 'public', 'v1', '1', 'h', 3, 'u1', 0, 0),
					('e2', 'o2', 'pdf', 'skill', '', 'public', 'v2', '1', 'h', 0, 'u2', 0, 0),
					('e3', 'o2', 'docx', 'skill', '', 'org', 'v3', '1', 'h', 0, 'u2', 0, 0),
					('e4', 'o1', 'xlsx', 'skill', '', 'public', 'v4', '1', 'h', 0, 'u1', 0, 0),
					('e5', 'o2', 'xlsx', 'skill', '', 'public', 'v5', '1', 'h', 0, 'u2', 0, 0)`,
				`INSERT INTO registry_versions (id, entry_id, version, content_hash, canonical_hash, tree_digest, size, description,
					file_manifest, source, rolled_back, pushed_by, pushed_at) VALUES
					('v1', 'e1', '1', 'h', 'h', 't', 1, '', '[{"path":"SKILL.md","hash":"x","size":1},{"path":"a \"b\"/ü.md","hash":"x","size":1}]', 'cli', FALSE, 'u1', 0),
					('v2', 'e2', '1', 'h', 'h', 't', 1, '', '[]', 'cli', FALSE, 'u2', 0),
					('v3', 'e3', '1', 'h', 'h', 't', 1, '', '[]', 'cli', FALSE, 'u2', 0),
					('v4', 'e4', '1', 'h', NULL, 't', 1, '', '[]', 'cli', FALSE, 'u1', 0),
					('v5', 'e5', '1', 'h', 'h', 't', 1, '', '[]', 'cli', FALSE, 'u2', 0)`,
				`INSERT INTO registry_installations (id, entry_id, org_id, user_id, device_id, install_path, content_hash, installed_at, last_seen_at) VALUES
					('i1', 'e1', 'o1', 'u1', 'a', '', '', 0, 0), ('i2', 'e1', 'o1', 'u1', 'b', '', '', 0, 0), ('i3', 'e1', 'o2', 'u2', 'a', '', '', 0, 0)`,
			} {
				if _, err := db.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Migrate(t.Context(), jobs.Tables); err != nil {
				t.Fatal(err)
			}
			texts := func(sql string) []string {
				rows, err := db.Query(t.Context(), sql)
				got, err := store.All(rows, err, store.Value[string])
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			for sql, want := range map[string][]string{
				`SELECT REPLACE(file_paths, '", "', '","') FROM registry_versions ORDER BY id`: {`["SKILL.md","a \"b\"/ü.md"]`, "[]", "[]", "[]", "[]"},
				`SELECT name || ' ' || org_id FROM registry_names ORDER BY name`:               {"pdf o1", "xlsx o2"},
				`SELECT CAST(installation_count AS TEXT) FROM registry_entries ORDER BY id`:    {"2", "0", "0", "0", "0"},
			} {
				if diff := cmp.Diff(want, texts(sql)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", sql, diff)
				}
			}
		})
	}
}
