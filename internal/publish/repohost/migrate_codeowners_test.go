package repohost_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// TestMigrateCodeowners migrates connections from before CODEOWNERS files had to be allowed:
// those of admins and owners count, and the doctor names the others whose file named owners.
func TestMigrateCodeowners(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, name), MaxConns: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.MigrateTo(t.Context(), 101); err != nil {
				t.Fatal(err)
			}
			exec := func(query string, args ...any) {
				t.Helper()
				if _, err := db.Exec(t.Context(), query, args...); err != nil {
					t.Fatal(err)
				}
			}
			for _, org := range []string{"o", "p"} {
				exec(`INSERT INTO organisations (id, name, plan, created_at) VALUES ($1, $1, 'pro', 0)`, org)
			}
			for _, u := range [][]any{
				{"owner", "o", "owner", nil},
				{"admin", "o", "admin", nil},
				{"member", "o", "member", nil},
				{"viewer", "o", "viewer", nil},
				{"gone", "o", "admin", 1},
				{"named", "o", "member", nil},
				{"team", "o", "member", nil},
				{"elsewhere", "p", "owner", nil},
			} {
				exec(`INSERT INTO users (id, org_id, email, name, role, created_at, removed_at) VALUES ($1, $2, $3, '', $4, 0, $5)`,
					u[0], u[1], fmt.Sprint(u[0], "@example.org"), u[2], u[3])
			}
			exec(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, current_version_id, current_version,
					current_hash, installation_count, created_by, created_at, updated_at)
				VALUES ('e', 'o', 'pdf', 'skill', '', 'org', '', '', '', 0, 'owner', 0, 0)`)
			exec(`INSERT INTO teams (id, org_id, name, slug, description, created_by, created_at, updated_at)
				VALUES ('docs', 'o', 'Docs', 'docs', '', 'owner', 0, 0)`)
			exec(`INSERT INTO team_members (team_id, org_id, user_id, added_at) VALUES ('docs', 'o', 'team', 0)`)
			exec(`INSERT INTO entry_owners (entry_id, org_id, user_id, team_id, set_at) VALUES ('e', 'o', 'named', NULL, 0), ('e', 'o', NULL, 'docs', 0)`)
			for i, by := range []string{"owner", "admin", "member", "viewer", "gone", "named", "team", "elsewhere", "member"} {
				id := fmt.Sprintf("%d-%s", i, by)
				exec(`INSERT INTO repohost_connections (id, org_id, entry_id, entry_name, installation_id, repo_id, repo_full_name, repo_key,
						default_branch, skill_path, auto_publish, write_back_enabled, tag_pattern, created_by, created_at, updated_at,
						configured_at, held_until)
					VALUES ($1, 'o', 'e', 'pdf', 1, $2, $3, $3, 'main', '', TRUE, FALSE, '', $4, 0, 0, 0, 0)`,
					id, i, "acme/"+id, by)
				owners := `["@docs"]`
				if i == 8 { // the file names none
					owners = `[]`
				}
				exec(`INSERT INTO entry_codeowners (connection_id, org_id, entry_id, repository, commit_sha, path, line, pattern, owners, read_at)
					VALUES ($1, 'o', 'e', 'acme/pdf', '', 'CODEOWNERS', 1, '*', $2, 0)`, id, owners)
			}
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			rows, err := db.Query(t.Context(), `SELECT id FROM repohost_connections WHERE codeowners ORDER BY id`)
			counts, err := store.All(rows, err, store.Value[string])
			if want := []string{"0-owner", "1-admin", "5-named", "6-team"}; err != nil || !slices.Equal(counts, want) {
				t.Errorf("the files of %v count, %v, want %v", counts, err, want)
			}
			findings, err := (&repohost.Service{DB: db}).Check(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			var named []string
			for _, f := range findings {
				if strings.Contains(f.Message, "no longer names the owners of pdf") {
					named = append(named, strings.Fields(f.Message)[4]) // "the CODEOWNERS file of NAME"
				}
			}
			if want := []string{"acme/2-member", "acme/3-viewer", "acme/4-gone", "acme/7-elsewhere"}; !slices.Equal(named, want) {
				t.Errorf("the doctor names %v, want %v: %v", named, want, findings)
			}
			// Whoever allows the file or chooses another branch has answered it.
			exec(`UPDATE repohost_connections SET codeowners = TRUE WHERE id = '2-member'`)
			exec(`UPDATE repohost_connections SET chosen_at = 1 WHERE id <> '2-member'`)
			if findings, err := (&repohost.Service{DB: db}).Check(t.Context(), db); err != nil || len(findings) > 0 && strings.Contains(fmt.Sprint(findings), "no longer names") {
				t.Errorf("the doctor still says %v, %v", findings, err)
			}
		})
	}
}
