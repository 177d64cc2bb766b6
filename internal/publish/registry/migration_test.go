package registry_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// eachAt runs a test on both databases, migrated to a schema of the past.
func eachAt(t *testing.T, schema int64, test func(t *testing.T, db *store.DB)) {
	t.Helper()
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, engine), MaxConns: 3})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			if err := db.MigrateTo(t.Context(), schema); err != nil {
				t.Fatal(err)
			}
			test(t, db)
		})
	}
}

// TestMigrationOfVersions has entries from before paths and names were kept.
func TestMigrationOfVersions(t *testing.T) {
	t.Parallel()
	eachAt(t, 23, func(t *testing.T, db *store.DB) {
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
					('i1', 'e1', 'o1', 'u1', 'a', '', '', 0, 0), ('i2', 'e1', 'o1', 'u1', 'b', '', '', 0, 0), ('i3', 'e1', 'o2', 'u2', 'a', '', '', 0, 0),
					('i4', 'e4', 'o1', 'u1', 'a', '', 'h', 0, 5), ('i5', 'e4', 'o1', 'u1', 'b', '', 'h', 0, 7), ('i6', 'e4', 'o1', 'u1', 'c', '', '', 0, 9),
					('i7', 'e5', 'o2', 'u2', 'a', '', 'h', 0, 5), ('i8', 'e5', 'o2', 'u2', 'b', '', 'g', 0, 7)`,
		} {
			if _, err := db.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Migrate(t.Context()); err != nil {
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
			`SELECT CAST(installation_count AS TEXT) FROM registry_entries ORDER BY id`:    {"2", "0", "0", "1", "1"},
			`SELECT user_id || ' ' || entry_id || device_hash || ' ' || since || ' ' || content_hash FROM installation_changes ORDER BY entry_id`: {
				"u1 e4 7 h", "u2 e5 7 ",
			},
		} {
			if diff := cmp.Diff(want, texts(sql)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", sql, diff)
			}
		}
	})
}

// TestMigrationOfObjects has versions from when equal archives were one object,
// and the counts of its references. All of them can be downloaded after the
// migration, and an object goes with the last version that names it.
func TestMigrationOfObjects(t *testing.T) {
	t.Parallel()
	eachAt(t, 32, func(t *testing.T, db *store.DB) {
		bucket := &agedBucket{Bucket: blobtest.Files(t)}
		w := newWorldOn(t, db, bucket)
		shared := registrytest.Pack(t, registrytest.File("shared", "x"))
		own, canonical := registrytest.Skill(t, "Own."), []byte("canonical")
		for _, content := range [][]byte{shared, own, canonical, []byte("unused"), []byte("being removed")} {
			if err := bucket.Put(t.Context(), sharedKey(content), bytes.NewReader(content), int64(len(content))); err != nil {
				t.Fatal(err)
			}
		}
		w.Exec(`INSERT INTO organisations (id, name, plan, created_at) VALUES ('o1', 'first', 'pro', 0), ('o2', 'second', 'pro', 0)`)
		w.Exec(`INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ('u1', 'o1', 'a@example.org', '', 'owner', 0), ('u2', 'o2', 'b@example.org', '', 'owner', 0)`)
		w.Exec(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, current_version_id, current_version,
				current_hash, installation_count, created_by, created_at, updated_at) VALUES
				('e1', 'o1', 'one', 'agent', '', 'org', 'v2', '2', $2, 0, 'u1', 0, 0),
				('e2', 'o2', 'two', 'agent', '', 'org', 'v3', '1', $1, 0, 'u2', 0, 0)`, registrytest.Sum(shared), registrytest.Sum(own))
		w.Exec(`INSERT INTO registry_versions (id, entry_id, version, content_hash, canonical_hash, tree_digest, size, description,
				file_manifest, source, rolled_back, pushed_by, pushed_at) VALUES
				('v1', 'e1', '1', $1, NULL, 't', 10, '', '[]', 'cli', FALSE, 'u1', 0),
				('v2', 'e1', '2', $2, $3, 't', 20, '', '[]', 'cli', FALSE, 'u1', 1),
				('v3', 'e2', '1', $1, NULL, 't', 10, '', '[]', 'cli', FALSE, 'u2', 0)`, registrytest.Sum(shared), registrytest.Sum(own), registrytest.Sum(canonical))
		w.Exec(`INSERT INTO registry_blobs (hash, refs, deleting, touched_at) VALUES ($1, 2, FALSE, 0), ($2, 1, FALSE, 0), ($3, 1, FALSE, 0), ($4, 0, TRUE, 0)`,
			registrytest.Sum(shared), registrytest.Sum(own), registrytest.Sum(canonical), registrytest.Sum([]byte("being removed")))
		w.Exec(`INSERT INTO registry_removals (hash, removed_at) VALUES ('h', 0)`)
		w.Exec(`INSERT INTO stored_bytes (org_id, kind, bytes) VALUES ('o1', 'registry', 30), ('o2', 'registry', 10)`)
		w.Exec(`INSERT INTO job_schedules (kind, next_at) VALUES ('registry.recount-blobs', 0)`)
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}

		w.Work()
		ada := w.WithKey(auth.Organisation{ID: "o1", Name: "first"}, auth.User{ID: "u1", OrgID: "o1"})
		bob := w.WithKey(auth.Organisation{ID: "o2", Name: "second"}, auth.User{ID: "u2", OrgID: "o2"})
		registrytest.WantDownload(ada.Get(registrytest.VersionPath("e1", "1")+"/download"), registrytest.Sum(shared))
		registrytest.WantDownload(ada.Get(registrytest.VersionPath("e1", "2")+"/download"), registrytest.Sum(own))
		ada.Pushed("e1", "3", shared) // has an object of its own
		wantKeys := func(when string, contents ...[]byte) {
			t.Helper()
			want := []string{}
			for _, content := range contents {
				want = append(want, sharedKey(content))
			}
			got := slices.DeleteFunc(w.BlobKeys(), func(key string) bool { return !strings.HasPrefix(key, "sha256/") })
			if diff := cmp.Diff(want, got, anyOrder()); diff != "" {
				t.Errorf("shared objects %s (-want +got):\n%s", when, diff)
			}
		}
		w.RunNow("registry.recount-blobs") // an old process may have left one in the queue
		w.RunNow("registry.remove-blobs")
		wantKeys("after the migration", shared, own, canonical, []byte("unused"), []byte("being removed"))
		w.RunNow("registry.sweep-blobs")
		wantKeys("after a sweep", shared, own, canonical)

		ada.Do(http.MethodDelete, registrytest.EntryPath("e1"), nil).Want(http.StatusNoContent)
		w.Settle()
		wantKeys("after one of two entries was deleted", shared)
		registrytest.WantDownload(bob.Get(registrytest.VersionPath("e2", "1")+"/download"), registrytest.Sum(shared))
		bob.Do(http.MethodDelete, registrytest.EntryPath("e2"), nil).Want(http.StatusNoContent)
		w.Settle()
		if got := w.BlobKeys(); len(got) != 0 {
			t.Errorf("objects %v are left", got)
		}
		if n := w.Count(`stored_bytes WHERE kind = 'registry' AND bytes <> 0`); n != 0 {
			t.Errorf("%d organisations without versions store archives", n)
		}
	})
}

// sharedKey is the key of an object from before schema 33.
func sharedKey(content []byte) string {
	return "sha256/" + registrytest.Sum(content)[:2] + "/" + registrytest.Sum(content)
}
