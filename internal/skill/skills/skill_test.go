package skills_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

func TestResolve(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		acme, other := newOrg(t, db, "acme"), newOrg(t, db, "other")
		first := resolve(t, db, acme, "pdf-forms")
		if _, err := uuid.Parse(first); err != nil {
			t.Errorf("id %q is no UUID", first)
		}
		for _, c := range []struct {
			name, org, skill string
			same             bool
		}{
			{"again", acme, "pdf-forms", true},
			{"with spaces around", acme, "  pdf-forms\n", true},
			{"another name", acme, "pdf-tables", false},
			{"in other letters", acme, "PDF-forms", false},
			{"another organisation", other, "pdf-forms", false},
		} {
			t.Run(c.name, func(t *testing.T) {
				if got := resolve(t, db, c.org, c.skill); (got == first) != c.same {
					t.Errorf("Resolve(%q) = %s; the first was %s, same: want %t", c.skill, got, first, c.same)
				}
			})
		}
	})
}

func TestResolveAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		org := newOrg(t, db, "acme")
		ids := make([]string, 8)
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() { ids[i] = resolve(t, db, org, "pdf-forms") })
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Errorf("ids %v, want one", ids)
			}
		}
		if n := count(t, db); n != 1 {
			t.Errorf("%d rows, want 1", n)
		}
	})
}

func TestResolveRefuses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		org := newOrg(t, db, "acme")
		for _, name := range []string{
			"", " \t", "custom_skill", " custom_skill ", "third-party", "NUL\x00", "\xff", strings.Repeat("x", 201),
		} {
			err := db.InTx(t.Context(), func(tx *store.Tx) error {
				_, err := skills.Resolve(t.Context(), tx, org, name)
				return err
			})
			if !fault.Is(err, fault.Malformed) ||
				!strings.Contains(err.Error(), "skill_name must be a skill's own name of 1 to 200 bytes") {
				t.Errorf("Resolve(%q): %v, want a validation error on skill_name", name, err)
			}
		}
		if n := count(t, db); n != 0 {
			t.Errorf("%d rows, want none", n)
		}
		resolve(t, db, org, strings.Repeat("x", 200))
	})
}

func TestPlaceholder(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, " ": true, "custom_skill": true, "third-party": true, " third-party ": true,
		"custom-skill": false, "pdf-forms": false, "third-party-pdf": false,
	} {
		if got := skills.Placeholder(name); got != want {
			t.Errorf("Placeholder(%q) = %t, want %t", name, got, want)
		}
	}
}

func newOrg(t *testing.T, db *store.DB, name string) string {
	t.Helper()
	return apptest.NewWorld(t, db, apptest.Options{}).Org(name).Org.ID
}

// resolve is Resolve in a transaction of its own. It may be called from any
// goroutine.
func resolve(t *testing.T, db *store.DB, org, name string) (id string) {
	t.Helper()
	err := db.InTx(t.Context(), func(tx *store.Tx) (err error) {
		id, err = skills.Resolve(t.Context(), tx, org, name)
		return err
	})
	if err != nil {
		t.Errorf("Resolve(%q): %v", name, err)
	}
	return id
}

func count(t *testing.T, db *store.DB) int {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT COUNT(*) FROM skills`)
	n, err := store.One(rows, err, "Count", store.Value[int])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
