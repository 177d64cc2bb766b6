package approvals_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestRaces approves, rejects, promotes, withdraws, restores and rolls back the same version
// on two replicas at once. Whatever the order was, what is current is published and was
// approved, and each answer is one that the order allows.
func TestRaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, object{"approvals": 2})
		other := wire(w.Replica())
		races, conflicts := 0, 0
		for n := range 12 {
			version := fmt.Sprintf("1.1.%d", n)
			w.push(w.dan, version)
			path := registrytest.VersionPath(w.entry, version)
			on := func(c *registrytest.Client, i int) *registrytest.Client {
				if i%2 == 0 {
					return c
				}
				return c.At(other.World)
			}
			post := func(c *registrytest.Client, path string, body object) func() apptest.Response {
				return func() apptest.Response { return c.Post(path, body) }
			}
			reason := object{"reason": "now"}
			calls := []func() apptest.Response{
				post(on(w.ben, n), path+"/approvals", object{"decision": "approve"}),
				post(on(w.cyd, n+1), path+"/approvals", object{"decision": "approve"}),
				post(on(w.dan, n), path+"/approvals", object{"decision": "approve"}), // a member may not
				post(on(w.ada, n+1), path+"/promote", reason),
				post(on(w.ada, n), path+"/withdraw", reason),
			}
			switch n % 3 {
			case 1:
				calls = append(calls, post(on(w.ben, n+1), path+"/approvals", object{"decision": "reject", "comment": "No."}))
			case 2:
				calls = append(calls, post(on(w.ada, n), path+"/restore", reason),
					post(on(w.ada, n+1), registrytest.EntryPath(w.entry)+"/rollback", object{"target_version": version}))
			}
			for i, r := range registrytest.Together(calls...) {
				races++
				switch {
				case i == 2 && r.Status != http.StatusForbidden && r.Status != http.StatusConflict, r.Status >= 500:
					t.Errorf("%s: %d %s", r.What, r.Status, r.Body)
				case r.Status == http.StatusConflict:
					conflicts++
				}
			}
			w.Settle()
			current := w.ada.Current(w.entry)
			if current == "" {
				t.Fatal("no version is current")
			}
			if state := w.ada.Versions(w.entry)[current]["state"]; state != "published" {
				t.Errorf("version %s is current and %v", current, state)
			}
			if current == "1.0.0" {
				continue
			}
			review := w.ada.Get(w.path(current)).Want(http.StatusOK).Object()
			if review["given"].(float64) < 2 || review["rejected"].(float64) > 0 {
				t.Errorf("version %s is current with %v approvals, %v rejections", current, review["given"], review["rejected"])
			}
		}
		if n := w.Count(`registry_entries e JOIN registry_versions v ON v.id = e.current_version_id
			WHERE v.version <> e.current_version OR v.state <> 'published'`); n != 0 {
			t.Errorf("%d entries have another current version than they say", n)
		}
		t.Logf("%d calls on two replicas, %d conflicts", races, conflicts)
	})
}
