package registry_test

import (
	"bytes"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// wantDescription checks the description of an entry wherever the API shows it,
// and that the search finds it by those words and not by the others.
func wantDescription(c *registrytest.Client, id, when, want, not string) {
	c.T.Helper()
	shown := apptest.Text(c.Get(registrytest.EntryPath(id)).Want(http.StatusOK).Object(), "entry", "description")
	listed := c.Get(registrytest.Path + "?q=" + want).Want(http.StatusOK).List("entries")
	if shown != want || len(listed) != 1 || apptest.Text(listed[0], "description") != want {
		c.T.Errorf("%s: description %q, found by it %v; want %q", when, shown, listed, want)
	}
	if others := c.Get(registrytest.Path + "?q=" + not).Want(http.StatusOK).List("entries"); len(others) != 0 {
		c.T.Errorf("%s: the search for %s finds %v", when, not, others)
	}
}

// wantConsistent lets the doctor look at the registry.
func wantConsistent(w *registrytest.World) {
	w.T.Helper()
	findings, err := w.Registry.Check(w.T.Context(), w.DB)
	if err != nil || slices.ContainsFunc(findings, func(f invariants.Finding) bool { return f.Status != invariants.Good }) {
		w.T.Errorf("findings %v, %v", findings, err)
	}
}

// TestDescription follows an entry's description through everything that makes
// another version current.
func TestDescription(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "First"))
		rollback := func(to string) {
			t.Helper()
			got := ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": to}).Want(http.StatusOK).Object()
			if apptest.At(got, "entry", "description") != ada.Get(registrytest.EntryPath(id)).Object()["entry"].(object)["description"] {
				t.Errorf("the answer of the rollback to %s has another description", to)
			}
		}
		pushed := ada.Pushed(id, "2", registrytest.Skill(t, "Second"))
		if got := apptest.Text(pushed, "entry", "description"); got != "Second" {
			t.Errorf("the answer of the push has the description %q", got)
		}
		wantDescription(ada, id, "after a push", "Second", "First")
		ada.Push(id, "1", registrytest.Skill(t, "First")).Want(http.StatusOK)
		wantDescription(ada, id, "after a push that is there already", "Second", "First")
		rollback("1")
		wantDescription(ada, id, "after a rollback", "First", "Second")
		ada.Pushed(id, "3", registrytest.Skill(t, "Third"), object{"description": "Stated"})
		wantDescription(ada, id, "after a push that states it", "Stated", "Third")
		none := registrytest.Pack(t, registrytest.File("SKILL.md", "# Text\n"))
		ada.Pushed(id, "4", none)
		wantDescription(ada, id, "after a version without one", "Stated", "First")
		rollback("2")
		wantDescription(ada, id, "after a rollback past it", "Second", "Stated")
		rollback("4")
		wantDescription(ada, id, "after a rollback forward", "Stated", "Second")
		ada.Pushed(id, "5", registrytest.Skill(t, "Fifth"), object{"description": ""})
		if got := apptest.At(ada.Get(registrytest.EntryPath(id)).Object(), "entry", "description"); got != "" {
			t.Errorf("after a push that states none: description %q", got)
		}
		rollback("3")
		wantDescription(ada, id, "after the last rollback", "Stated", "Fifth")
		wantConsistent(w)
	})
}

// TestDescriptionOfRepo publishes from a repository: only a version that becomes
// current changes the description.
func TestDescriptionOfRepo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "First"))
		for _, c := range []struct{ version, description, want, not string }{
			{"0.0.0-repohost.0123456", "Branch", "First", "Branch"},
			{"0.9.0", "Older", "First", "Older"},
			{"1.1.0", "Newer", "Newer", "First"},
		} {
			archive := bytes.NewReader(registrytest.Skill(t, c.description))
			pkg, err := skillpkg.Read(t.Context(), archive, skillpkg.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			_, made, err := w.Registry.PublishRepo(t.Context(), registry.RepoPublication{
				OrgID: ada.Org.ID, UserID: ada.User.ID, EntryID: id, Version: c.version, Source: registry.FromRepohost,
				SourceRef: "main", SourceRepo: "acme/pdf", Package: pkg, Latest: true,
			})
			if err != nil || !made || pkg.Close() != nil {
				t.Fatalf("%s: made %t, %v", c.version, made, err)
			}
			wantDescription(ada, id, c.version, c.want, c.not)
		}
	})
}

// TestMigrationOfDescriptions has entries whose description was that of their
// first version, whatever was pushed since.
func TestMigrationOfDescriptions(t *testing.T) {
	t.Parallel()
	eachAt(t, 33, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Exec(`INSERT INTO organisations (id, name, plan, created_at) VALUES ('o', 'acme', 'pro', 0)`)
		w.Exec(`INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ('u', 'o', 'a@example.org', '', 'owner', 0)`)
		for _, e := range []struct {
			id, description string
			versions        []string // their descriptions
			current         int
		}{
			{"only", "One", []string{"One"}, 0},
			{"pushed", "One", []string{"One", "Two"}, 1},
			{"back", "One", []string{"One", "Two"}, 0},
			{"stated", "Stated", []string{"One"}, 0},
			{"stated-pushed", "Said", []string{"One", "Two", "Three"}, 2},
			{"agent", "An agent", []string{"", ""}, 1},
		} {
			version := func(n int) string { return e.id + "-" + string(rune('a'+n)) }
			w.Exec(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, current_version_id, current_version,
				current_hash, installation_count, created_by, created_at, updated_at)
				VALUES ($1, 'o', $1, 'skill', $2, 'org', $3, $3, 'h', 0, 'u', 0, 0)`, e.id, e.description, version(e.current))
			for n, description := range e.versions {
				w.Exec(`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description, file_manifest,
					source, rolled_back, pushed_by, pushed_at, archive_key)
					VALUES ($1, $2, $1, 'h', 't', 1, $3, '[]', 'cli', FALSE, 'u', $4, 'k')`, version(n), e.id, description, n)
			}
		}
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		ada := w.WithKey(auth.Organisation{ID: "o", Name: "acme"}, auth.User{ID: "u", OrgID: "o"})
		got := map[string]any{}
		for _, e := range ada.Get(registrytest.Path).Want(http.StatusOK).List("entries") {
			got[apptest.Text(e, "name")] = e["description"]
		}
		want := object{"only": "One", "pushed": "Two", "back": "One", "stated": "Stated", "stated-pushed": "Three", "agent": "An agent"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("descriptions (-want +got):\n%s", diff)
		}
		for id, to := range map[string]string{"pushed": "a", "stated-pushed": "a", "agent": "a"} {
			ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": id + "-" + to}).Want(http.StatusOK)
		}
		wantDescription(ada, "stated-pushed", "after a rollback to the first", "Said", "Three")
		wantConsistent(w)
	})
}
