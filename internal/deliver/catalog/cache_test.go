package catalog_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// slowly takes as long as the making of a value that is kept for some time.
func slowly() {
	for start := time.Now(); time.Since(start) < 60*time.Millisecond; {
	}
}

// TestRemovalEndsCaches: a value that is kept because it takes long to make may lack what
// was added, but must not have what was withdrawn, deleted or hidden on another replica.
func TestRemovalEndsCaches(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro).At(w.Replica())
		public := object{"visibility": "public"}
		ids := map[string]string{}
		for _, name := range []string{"withdrawn", "older", "deleted", "private", "unlisted"} {
			ids[name] = ada.Made(name, "1", registrytest.Skill(t, name), public)
		}
		ada.Pushed(ids["older"], "2", registrytest.Skill(t, "two"))
		made, outerMade := 0, 0
		inner, outer := &catalog.Cache[int]{Registry: w.Registry, Limit: 100}, &catalog.Cache[[2]int]{Registry: w.Registry, Limit: 100}
		shelf := registry.Shelf{OrgName: "acme"}
		get := func() [2]int {
			t.Helper()
			value, err := outer.Get(t.Context(), shelf, "", func(ctx context.Context) ([2]int, int64, error) {
				outerMade++
				of, err := inner.Get(ctx, shelf, "", func(context.Context) (int, int64, error) {
					made++
					slowly()
					return made, 1, nil
				})
				return [2]int{outerMade, of}, 1, err
			})
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
		first := get()
		if got := get(); got != first {
			t.Errorf("made again: %v, then %v", first, got)
		}
		ada.Made("added", "1", registrytest.Skill(t, "added"), public)
		if got := get(); got != first {
			t.Errorf("an addition ends what is expensive: %v, then %v", first, got)
		}
		for name, remove := range map[string]func(){
			"withdrawn": func() {
				ada.Post(registrytest.VersionPath(ids["withdrawn"], "1")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
			},
			"not the current one": func() {
				ada.Post(registrytest.VersionPath(ids["older"], "1")+"/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
			},
			"deleted": func() {
				ada.Do(http.MethodDelete, registrytest.EntryPath(ids["deleted"]), nil).Want(http.StatusNoContent)
			},
			"private": func() {
				ada.Do(http.MethodPatch, registrytest.EntryPath(ids["private"]), object{"visibility": "org"}).Want(http.StatusOK)
			},
			"unlisted": func() {
				ada.Do(http.MethodPatch, registrytest.EntryPath(ids["unlisted"]), object{"visibility": "unlisted"}).Want(http.StatusOK)
			},
		} {
			before := get()
			remove()
			if got := get(); got[0] == before[0] || got[1] == before[1] {
				t.Errorf("%s: %v is served after it, %v was before", name, got, before)
			}
		}
	})
}

// TestRemovalDuringMaking: a build that began before a removal is not served after it.
func TestRemovalDuringMaking(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "A."), object{"visibility": "public"})
		cache, shelf := &catalog.Cache[string]{Registry: w.Registry, Limit: 100}, registry.Shelf{OrgName: "acme"}
		began, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			_, err := cache.Get(t.Context(), shelf, "", func(context.Context) (string, int64, error) {
				close(began)
				<-goOn
				slowly()
				return "before", 1, nil
			})
			done <- err
		}()
		<-began
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		ask := func() string {
			got, err := cache.Get(t.Context(), shelf, "", func(context.Context) (string, int64, error) { return "after", 1, nil })
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := ask(); got != "after" {
			t.Errorf("got what was made %s the removal", got)
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := ask(); got != "after" { // the late one must not replace it
			t.Errorf("got what was made %s the removal", got)
		}
	})
}

// TestStaleParts: a value that was made of a kept one is as old as that, and is made again.
func TestStaleParts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("pdf", "1", registrytest.Skill(t, "A."))
		inner, outer := &catalog.Cache[int]{Registry: w.Registry, Limit: 100}, &catalog.Cache[int]{Registry: w.Registry, Limit: 100}
		shelf, parts, wholes := registry.Shelf{OrgName: "acme"}, 0, 0
		part := func(ctx context.Context) (int, error) {
			return inner.Get(ctx, shelf, "", func(context.Context) (int, int64, error) {
				parts++
				slowly()
				return parts, 1, nil
			})
		}
		whole := func() {
			_, err := outer.Get(t.Context(), shelf, "", func(ctx context.Context) (int, int64, error) {
				wholes++
				of, err := part(ctx)
				return of, 1, err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := part(t.Context()); err != nil {
			t.Fatal(err)
		}
		ada.Made("docx", "1", registrytest.Skill(t, "B."))
		whole()
		whole()
		if parts != 1 || wholes != 2 {
			t.Errorf("the part was made %d times, the whole of it %d times, want 1 and 2", parts, wholes)
		}
	})
}
