package repohost_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
)

// TestCodeowners: a push brings the owners of its file, and a tag those of the branch.
func TestCodeowners(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w, c, work, entry, _ := connected(t, db, object{"codeowners": true})
		owned := &teams.Service{DB: db, Auth: w.Auth, Registry: w.registry}
		w.service.Owners = owned
		if _, err := w.Auth.CreateUser(t.Context(), auth.NewUser{OrgID: c.Org.ID, Email: "bob@example.org", Role: access.Member}); err != nil {
			t.Fatal(err)
		}
		if _, err := owned.Create(t.Context(), access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}, "Docs", ""); err != nil {
			t.Fatal(err)
		}
		w.Work()
		owners := func() string {
			t.Helper()
			o, err := owned.OwnersOf(t.Context(), c.Org.ID, entry)
			if err != nil {
				t.Fatal(err)
			}
			all := []string{string(o.Source)}
			for _, p := range o.Users {
				all = append(all, p.Email)
			}
			for _, team := range o.Teams {
				all = append(all, "@"+team.Slug)
			}
			return strings.Join(append(all, o.Unknown...), " ")
		}
		push := func(id, message, want string, files map[string]string) string {
			t.Helper()
			head := work.Push(message, files)
			w.hook(id, "acme/deploy", "refs/heads/main", head)
			w.Settle()
			if got := owners(); got != want {
				t.Errorf("%s: %s, want %s", message, got, want)
			}
			return head
		}
		files := skillFiles("First.")
		push("1", "without a file", "none", files)
		files["docs/CODEOWNERS"] = "* bob@example.org\n"
		old := push("2", "a file in docs", "codeowners bob@example.org", files)
		files[".github/CODEOWNERS"] = "* @acme/docs @acme/ghosts\n"
		push("3", "a file in .github", "codeowners @docs @acme/ghosts", files)

		w.repos.Git("acme/deploy", "tag", "v1.0.0", old)
		w.hook("4", "acme/deploy", "refs/tags/v1.0.0", old)
		w.Settle()
		if got := owners(); got != "codeowners @docs @acme/ghosts" {
			t.Errorf("after a tag of an older commit: %s", got)
		}
		files[".github/CODEOWNERS"] = "* bob@example.org\n" + strings.Repeat("#", 300<<10)
		push("5", "a file that is too large", "none", files)
	})
}
