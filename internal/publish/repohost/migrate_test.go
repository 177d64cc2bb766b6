package repohost_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
)

// TestMigrateClaims migrates installations from before claims existed: an account
// is claimed by the organisation that had bound it, and contested if there were
// several.
func TestMigrateClaims(t *testing.T) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, name), MaxConns: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.MigrateTo(t.Context(), 23); err != nil {
				t.Fatal(err)
			}
			exec := func(query string, args ...any) {
				if _, err := db.Exec(t.Context(), query, args...); err != nil {
					t.Fatal(err)
				}
			}
			for n, org := range []string{"a", "b"} {
				exec(`INSERT INTO organisations (id, name, plan, created_at) VALUES ($1, $1, 'pro', $2)`, org, n)
			}
			for n, bound := range [][2]string{{"a", "Alone"}, {"a", "alone"}, {"a", "Both"}, {"b", "BOTH"}, {"b", "iI"}} {
				exec(`INSERT INTO repohost_installations (id, org_id, installation_id, account_login, account_type, suspended, created_at, updated_at)
					VALUES ($1, $2, $3, $4, 'User', FALSE, 1, 1)`, fmt.Sprint(n), bound[0], n+1, bound[1])
			}
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			all, err := claims.All(t.Context(), db)
			var got []string
			for _, c := range all {
				got = append(got, fmt.Sprintf("%s:%s:%v", c.Account, c.OrgID, c.BoundBy))
			}
			if want := []string{"alone:a:[a]", "both::[a b]", "ii:b:[b]"}; err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
			for org, want := range map[string]string{"a": "Alone:false alone:false Both:true ", "b": "BOTH:true iI:false "} {
				all, err := (&repohost.Service{DB: db}).Installations(t.Context(), org)
				text := ""
				for _, i := range all {
					text += fmt.Sprintf("%s:%t ", i.AccountLogin, i.Inactive())
				}
				if err != nil || text != want {
					t.Errorf("%s: got %s, %v, want %s", org, text, err, want)
				}
			}
		})
	}
}
