package registry_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestVisibility asks for entries of every visibility, as their organisation
// and as another.
func TestVisibility(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		owner, stranger := w.Org("acme", access.Team), w.Org("other", access.Team)
		ids := map[string]string{}
		all := []string{"org", "public", "unlisted"}
		for _, v := range all {
			ids[v] = owner.Made(v, "1", registrytest.Skill(t, v), object{"visibility": v})
			owner.Pushed(ids[v], "2", registrytest.Skill(t, v+" 2"))
		}
		for _, c := range []struct {
			who            string
			client         *registrytest.Client
			listed, public []string
			reachable      []string
		}{
			{"owner", owner, all, []string{"public"}, all},
			{"stranger", stranger, []string{}, []string{"public"}, []string{"public", "unlisted"}},
		} {
			t.Run(c.who, func(t *testing.T) {
				client := c.client.In(t)
				if diff := cmp.Diff(c.listed, registrytest.Names(client.Get(registrytest.Path).List("entries"))); diff != "" {
					t.Errorf("list (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.public, registrytest.Names(client.Get(registrytest.Path+"/public").List("entries"))); diff != "" {
					t.Errorf("public list (-want +got):\n%s", diff)
				}
				for v, id := range ids {
					wantReach(client, id, slices.Contains(c.reachable, v))
				}
				items := []object{}
				for _, v := range all {
					items = append(items, object{"entry_id": ids[v], "current_version_hash": "none"})
				}
				synced := client.Post(registrytest.SyncPath, object{"installations": items}).Want(http.StatusOK).List("entries")
				if diff := cmp.Diff(c.reachable, registrytest.Names(synced)); diff != "" {
					t.Errorf("sync (-want +got):\n%s", diff)
				}
			})
		}
		wantUntouchable(stranger, ids["public"])
	})
}

// wantReach checks that all reads of an entry work, or that none does.
func wantReach(c *registrytest.Client, id string, reachable bool) {
	c.T.Helper()
	for _, path := range []string{
		"", "/versions", "/versions/1/download", "/versions/1/files/SKILL.md", "/versions/2/diff", "/versions/2/diff?from=1", "/installations",
	} {
		a := c.Get(registrytest.EntryPath(id) + path)
		if reachable {
			a.Want(http.StatusOK)
		} else {
			a.WantErrorWith(http.StatusNotFound, "Registry entry not found")
		}
	}
	a := c.Post(registrytest.EntryPath(id)+"/install", nil)
	if reachable {
		a.Want(http.StatusOK)
	} else {
		a.WantErrorWith(http.StatusNotFound, "Registry entry not found")
	}
}

// wantUntouchable checks that a stranger can change nothing of an entry that
// it can see.
func wantUntouchable(stranger *registrytest.Client, id string) {
	stranger.T.Helper()
	const missing = "Registry entry not found"
	stranger.Push(id, "3", registrytest.Skill(stranger.T, "Evil.")).WantErrorWith(http.StatusNotFound, missing)
	stranger.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": "1"}).WantErrorWith(http.StatusNotFound, missing)
	stranger.Do(http.MethodDelete, registrytest.EntryPath(id), nil).WantErrorWith(http.StatusNotFound, missing)
	if got := stranger.Current(id); got != "2" {
		stranger.T.Errorf("current is %s, want 2", got)
	}
}
