package catalog_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestListing reads the shelves that all protocols share, before and after changes.
func TestListing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		public := object{"visibility": "public"}
		pdf := ada.Made("pdf", "1", registrytest.Skill(t, "One."), public)
		ada.Pushed(pdf, "2", registrytest.Skill(t, "Two.", "docs/a.md", "a"))
		ada.Made("mine", "1", registrytest.Skill(t, "Mine."))
		ada.Made("hidden", "1", registrytest.Skill(t, "Hidden."), object{"visibility": "unlisted"})
		ada.Made("No Name", "1", registrytest.Skill(t, "No name for installers."), public)
		bob.Made("theirs", "1", registrytest.Skill(t, "Theirs."), public)
		bob.Made("secret", "1", registrytest.Skill(t, "Secret."))
		want := func(when string, sh registry.Shelf, want ...string) {
			t.Helper()
			// One that took long to make, on a busy machine, is kept for a while after a change.
			apptest.Eventually(t, when, func() bool {
				var got []string
				list, err := w.Catalog.Listing(t.Context(), sh)
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range list {
					got = append(got, l.OrgName+"/"+l.Name+" "+l.Current.Version+": "+l.Current.Description)
				}
				return slices.Equal(want, got)
			})
		}
		own := registry.Shelf{OrgName: "acme", Private: true}
		want("the host", registry.Shelf{}, "acme/pdf 2: Two.", "other/theirs 1: Theirs.")
		want("an organisation", registry.Shelf{OrgName: "acme"}, "acme/pdf 2: Two.")
		want("with its own", own, "acme/mine 1: Mine.", "acme/pdf 2: Two.")
		want("nobody", registry.Shelf{OrgName: "nobody", Private: true})

		list, err := w.Catalog.Listing(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		l, ok := list.Find("pdf")
		if content, err := w.Registry.File(t.Context(), l.Current, "docs/a.md"); !ok || err != nil || string(content) != "a" {
			t.Errorf("docs/a.md holds %q, %v", content, err)
		}
		if l, ok := list.Find("pd"); ok {
			t.Errorf("pd is %s", l.Name)
		}
		archive := registrytest.Resolve(t, newIndex, w.Anonymous().Get(newIndex).List("skills")[0])
		w.Anonymous().Get(archive).Want(http.StatusOK)
		ada.Do(http.MethodPost, registrytest.VersionPath(pdf, "2")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
		want("after the withdrawal", own, "acme/mine 1: Mine.", "acme/pdf 1: One.")
		w.Anonymous().Get(archive).Want(http.StatusNotFound)
	})
}
