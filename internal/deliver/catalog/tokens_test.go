package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// TestTextTokens estimates the texts of current versions: four characters a token.
func TestTextTokens(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("pdf", "1", registrytest.Skill(t, "Reads tables of files."), nil) // 3 + 22 characters
		ada.Made("old", "1", registrytest.Skill(t, "Old."), nil)
		w.Exec(`UPDATE registry_versions SET skill_md = NULL WHERE description = 'Old.'`)
		var pdf, old string
		err := db.InTx(t.Context(), func(tx *store.Tx) (err error) {
			if pdf, err = skills.Resolve(t.Context(), tx, ada.Org.ID, "pdf"); err != nil {
				return err
			}
			old, err = skills.Resolve(t.Context(), tx, ada.Org.ID, "old")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var size int64
		rows, err := db.Query(t.Context(), `SELECT LENGTH(skill_md) FROM registry_versions WHERE skill_md IS NOT NULL`)
		if size, err = store.One(rows, err, "Version", store.Value[int64]); err != nil || size == 0 {
			t.Fatalf("%d bytes, %v", size, err)
		}
		listing, body, err := catalog.Texts{DB: db}.TextTokens(t.Context(), []string{pdf, old, "unknown"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]int64{pdf: 6, old: 1}, listing); diff != "" {
			t.Errorf("listing (- want, + got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]int64{pdf: size / 4}, body); diff != "" {
			t.Errorf("body (- want, + got):\n%s", diff)
		}
	})
}
