package registry_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// statuses of answers, the lowest first.
func statuses(answers []apptest.Response) []int {
	all := []int{}
	for _, a := range answers {
		all = append(all, a.Status)
	}
	slices.Sort(all)
	return all
}

// wantNoOrphans checks that every row belongs to an entry, that every entry
// has its current version and the description of that, and that the bucket has
// what versions need and no more.
func wantNoOrphans(w *registrytest.World) {
	w.T.Helper()
	wantConsistent(w)
	for _, table := range []string{"registry_versions", "registry_installations", "registry_rollbacks", "registry_currents"} {
		if n := w.Count(table + ` WHERE entry_id NOT IN (SELECT id FROM registry_entries)`); n != 0 {
			w.T.Errorf("%s has %d rows of no entry", table, n)
		}
	}
	if n := w.Count(`registry_entries WHERE current_version_id NOT IN (SELECT id FROM registry_versions)`); n != 0 {
		w.T.Errorf("%d entries without their current version", n)
	}
	rows, err := w.DB.Query(w.T.Context(), `
		SELECT archive_key FROM registry_versions UNION SELECT canonical_key FROM registry_versions WHERE canonical_key IS NOT NULL`)
	referred, err := store.All(rows, err, store.Value[string])
	if err != nil {
		w.T.Fatal(err)
	}
	if diff := cmp.Diff(referred, w.BlobKeys(), anyOrder(), cmpopts.EquateEmpty()); diff != "" {
		w.T.Errorf("keys that versions name, and keys in the bucket (-want +got):\n%s", diff)
	}
}

func TestPushAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Work()
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "0", registrytest.Skill(t, "0."))
		for round := range 5 {
			version := fmt.Sprintf("same %d", round)
			archive := registrytest.Skill(t, version)
			push := func() apptest.Response { return ada.Push(id, version, archive) }
			got := registrytest.Together(push, push, push)
			if diff := cmp.Diff([]int{200, 200, 201}, statuses(got)); diff != "" {
				t.Errorf("the same content (-want +got):\n%s", diff)
			}
			for _, a := range got {
				if apptest.Text(a.Object(), "version", "id") != apptest.Text(got[0].Object(), "version", "id") {
					t.Error("the same version has two ids")
				}
			}

			version = fmt.Sprintf("other %d", round)
			one, two := registrytest.Skill(t, version+" a"), registrytest.Skill(t, version+" b")
			got = registrytest.Together(
				func() apptest.Response { return ada.Push(id, version, one) },
				func() apptest.Response { return ada.Push(id, version, two) })
			if diff := cmp.Diff([]int{201, 409}, statuses(got)); diff != "" {
				t.Errorf("other content (-want +got):\n%s", diff)
			}
			if got := ada.Current(id); got != version {
				t.Errorf("current is %q, want %q", got, version)
			}
		}
		w.Settle()
		wantNoOrphans(w)
	})
}

// TestPushOrder checks that of pushes at the same time the last to come is
// current, and the first of the list.
func TestPushOrder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.Made("pdf", "0", registrytest.Skill(t, "0."))
		var pushes []func() apptest.Response
		for i := range 8 {
			version := fmt.Sprint(i + 1)
			archive := registrytest.Skill(t, version, "noise", registrytest.Noise(i*20_000)) // some take longer to read
			pushes = append(pushes, func() apptest.Response { return ada.Push(id, version, archive) })
		}
		for _, a := range registrytest.Together(pushes...) {
			a.Want(http.StatusCreated)
		}
		newest := ada.Get(registrytest.EntryPath(id) + "/versions").List("versions")[0]
		if got := ada.Current(id); got != apptest.Text(newest, "version") {
			t.Errorf("current is %s, but the newest push is %s", got, newest["version"])
		}
	})
}

func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Work()
		ada := w.Org("acme", access.Pro)
		var creates []func() apptest.Response
		for i := range 8 {
			archive := registrytest.Skill(t, fmt.Sprint(i%4))
			creates = append(creates, func() apptest.Response { return ada.Create("pdf", "1", archive) })
		}
		want := []int{201, 409, 409, 409, 409, 409, 409, 409}
		if diff := cmp.Diff(want, statuses(registrytest.Together(creates...))); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
		w.Settle()
		wantNoOrphans(w)
		if n := len(w.Contents()); n != 2 {
			t.Errorf("%d contents, want the two archives of one version", n)
		}
	})
}

func TestPushAgainstRollback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		third := registrytest.Skill(t, "3.")
		for round := range 8 {
			id := ada.EntryOf(fmt.Sprintf("pdf %d", round), 2)
			got := registrytest.Together(
				func() apptest.Response { return ada.Push(id, "3", third) },
				func() apptest.Response { return ada.Post(registrytest.EntryPath(id)+"/rollback", nil) })
			got[0].Want(http.StatusCreated)
			got[1].Want(http.StatusOK)
			// Either the push came first and was rolled back, or the other way round.
			if now := ada.Flags(id); now != " 3r 2c 1" && now != " 3c 2r 1" {
				t.Errorf("versions%s", now)
			}
		}
		wantNoOrphans(w)
	})
}

func TestDeleteAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Work()
		ada := w.Org("acme", access.Pro)
		second := registrytest.Skill(t, "2.")
		for round := range 10 {
			id := ada.Made(fmt.Sprint(round), "1", registrytest.Skill(t, "1."))
			ada.Install(id, nil)
			got := registrytest.Together(
				func() apptest.Response { return ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil) },
				func() apptest.Response { return ada.Push(id, "2", second) },
				func() apptest.Response {
					return ada.Post(registrytest.EntryPath(id)+"/install", object{"device_id": "a"})
				},
				func() apptest.Response { return ada.Post(registrytest.EntryPath(id)+"/rollback", nil) },
				func() apptest.Response { return ada.Get(registrytest.EntryPath(id)) },
				func() apptest.Response {
					return ada.Post(registrytest.SyncPath, object{"installations": []object{registrytest.Item(id, registrytest.Sum(nil))}})
				})
			for i, allowed := range [][]int{{204}, {201, 404}, {200, 404}, {200, 404, 409}, {200, 404}, {200}} {
				if !slices.Contains(allowed, got[i].Status) {
					t.Errorf("%s: status %d, want one of %v: %s", got[i].What, got[i].Status, allowed, got[i].Body)
				}
			}
			if got[4].Status == http.StatusOK && len(got[4].List("versions")) == 0 {
				t.Error("an entry without versions")
			}
		}
		w.Settle()
		wantNoOrphans(w)
		for _, table := range []string{"registry_entries", "registry_versions", "registry_installations"} {
			if n := w.Count(table); n != 0 {
				t.Errorf("%s has %d rows after all was deleted", table, n)
			}
		}
	})
}

// TestRemovalAgainstPush deletes and pushes the same content again and again:
// a version that exists always has its bytes.
func TestRemovalAgainstPush(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Work()
		ada := w.Org("acme", access.Pro)
		archive := registrytest.Skill(t, "Again.")
		id := ada.Made("0", "1", archive)
		for round := 1; round <= 50; round++ {
			got := registrytest.Together(
				func() apptest.Response { return ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil) },
				func() apptest.Response { return ada.Create(fmt.Sprint(round), "1", archive) })
			got[0].Want(http.StatusNoContent)
			id = apptest.Text(got[1].Want(http.StatusCreated).Object(), "entry", "id")
			ada.Get(registrytest.VersionPath(id, "1") + "/download").Want(http.StatusOK)
		}
		w.Settle()
		ada.Get(registrytest.VersionPath(id, "1") + "/download").Want(http.StatusOK)
		wantNoOrphans(w)
		if hadDeadlocks(w) {
			t.Error("deadlocks: rows are locked in different orders")
		}
	})
}

// hadDeadlocks reports whether transactions had to be tried again, as far as
// the database has counted.
func hadDeadlocks(w *registrytest.World) bool {
	w.T.Helper()
	return w.DB.Dialect().Name() == "postgres" &&
		w.Count(`pg_stat_database WHERE datname = current_database() AND deadlocks > 0`) > 0
}
