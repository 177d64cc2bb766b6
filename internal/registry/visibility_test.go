package registry_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// TestVisibility asks for entries of every visibility, as their organisation
// and as another.
func TestVisibility(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		owner, stranger := w.org("acme", access.Team), w.org("other", access.Team)
		ids := map[string]string{}
		all := []string{"org", "public", "unlisted"}
		for _, v := range all {
			ids[v] = owner.made(v, "1", skill(t, v), object{"visibility": v})
			owner.push(ids[v], "2", skill(t, v+" 2")).want(http.StatusCreated)
		}
		for _, c := range []struct {
			who            string
			client         *client
			listed, public []string
			reachable      []string
		}{
			{"owner", owner, all, []string{"public"}, all},
			{"stranger", stranger, []string{}, []string{"public"}, []string{"public", "unlisted"}},
		} {
			t.Run(c.who, func(t *testing.T) {
				client := c.client.in(t)
				if diff := cmp.Diff(c.listed, names(client.get(registryPath).list("entries"))); diff != "" {
					t.Errorf("list (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.public, names(client.get(registryPath+"/public").list("entries"))); diff != "" {
					t.Errorf("public list (-want +got):\n%s", diff)
				}
				for v, id := range ids {
					wantReach(client, id, slices.Contains(c.reachable, v))
				}
				items := []object{}
				for _, v := range all {
					items = append(items, object{"entry_id": ids[v], "current_version_hash": "none"})
				}
				synced := client.post(registryPath+"/sync", object{"installations": items}).want(http.StatusOK).list("entries")
				if diff := cmp.Diff(c.reachable, names(synced)); diff != "" {
					t.Errorf("sync (-want +got):\n%s", diff)
				}
			})
		}
		wantUntouchable(stranger, ids["public"])
	})
}

// wantReach checks that all reads of an entry work, or that none does.
func wantReach(c *client, id string, reachable bool) {
	c.t.Helper()
	for _, path := range []string{
		"", "/versions", "/versions/1/download", "/versions/1/files/SKILL.md", "/versions/2/diff", "/versions/2/diff?from=1", "/installations",
	} {
		a := c.get(entryPath(id) + path)
		if reachable {
			a.want(http.StatusOK)
		} else {
			a.wantError(http.StatusNotFound, "Registry entry not found")
		}
	}
	a := c.post(entryPath(id)+"/install", nil)
	if reachable {
		a.want(http.StatusOK)
	} else {
		a.wantError(http.StatusNotFound, "Registry entry not found")
	}
}

// wantUntouchable checks that a stranger can change nothing of an entry that
// it can see.
func wantUntouchable(stranger *client, id string) {
	stranger.t.Helper()
	const missing = "Registry entry not found"
	stranger.push(id, "3", skill(stranger.t, "Evil.")).wantError(http.StatusNotFound, missing)
	stranger.post(entryPath(id)+"/rollback", object{"target_version": "1"}).wantError(http.StatusNotFound, missing)
	stranger.do(http.MethodDelete, entryPath(id), nil).wantError(http.StatusNotFound, missing)
	if got := stranger.current(id); got != "2" {
		stranger.t.Errorf("current is %s, want 2", got)
	}
}
