package registry_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// together makes calls at the same time and returns their answers.
func together(calls ...func() answer) []answer {
	answers := make([]answer, len(calls))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			<-start
			answers[i] = call()
		})
	}
	close(start)
	wg.Wait()
	return answers
}

// statuses of answers, the lowest first.
func statuses(answers []answer) []int {
	all := []int{}
	for _, a := range answers {
		all = append(all, a.status)
	}
	slices.Sort(all)
	return all
}

// wantNoOrphans checks that every row belongs to an entry, that every entry
// has its current version, and that the bucket has what versions need and no
// more.
func (w *world) wantNoOrphans() {
	w.t.Helper()
	for _, table := range []string{"registry_versions", "registry_installations", "registry_rollbacks", "registry_currents"} {
		if n := w.count(table + ` WHERE entry_id NOT IN (SELECT id FROM registry_entries)`); n != 0 {
			w.t.Errorf("%s has %d rows of no entry", table, n)
		}
	}
	if n := w.count(`registry_entries WHERE current_version_id NOT IN (SELECT id FROM registry_versions)`); n != 0 {
		w.t.Errorf("%d entries without their current version", n)
	}
	rows, err := w.db.Query(w.t.Context(), `
		SELECT archive_key FROM registry_versions UNION SELECT canonical_key FROM registry_versions WHERE canonical_key IS NOT NULL`)
	referred, err := store.All(rows, err, store.Value[string])
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(referred, w.keys(), anyOrder(), cmpopts.EquateEmpty()); diff != "" {
		w.t.Errorf("keys that versions name, and keys in the bucket (-want +got):\n%s", diff)
	}
}

func TestPushAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "0", skill(t, "0."))
		for round := range 5 {
			version := fmt.Sprintf("same %d", round)
			archive := skill(t, version)
			push := func() answer { return ada.push(id, version, archive) }
			got := together(push, push, push)
			if diff := cmp.Diff([]int{200, 200, 201}, statuses(got)); diff != "" {
				t.Errorf("the same content (-want +got):\n%s", diff)
			}
			for _, a := range got {
				if text(a.object(), "version", "id") != text(got[0].object(), "version", "id") {
					t.Error("the same version has two ids")
				}
			}

			version = fmt.Sprintf("other %d", round)
			one, two := skill(t, version+" a"), skill(t, version+" b")
			got = together(
				func() answer { return ada.push(id, version, one) },
				func() answer { return ada.push(id, version, two) })
			if diff := cmp.Diff([]int{201, 409}, statuses(got)); diff != "" {
				t.Errorf("other content (-want +got):\n%s", diff)
			}
			if got := ada.current(id); got != version {
				t.Errorf("current is %q, want %q", got, version)
			}
		}
		w.settle()
		w.wantNoOrphans()
	})
}

// TestPushOrder checks that of pushes at the same time the last to come is
// current, and the first of the list.
func TestPushOrder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Pro)
		id := ada.made("pdf", "0", skill(t, "0."))
		var pushes []func() answer
		for i := range 8 {
			version := fmt.Sprint(i + 1)
			archive := skill(t, version, "noise", noise(i*20_000)) // some take longer to read
			pushes = append(pushes, func() answer { return ada.push(id, version, archive) })
		}
		for _, a := range together(pushes...) {
			a.want(http.StatusCreated)
		}
		newest := ada.get(entryPath(id) + "/versions").list("versions")[0]
		if got := ada.current(id); got != text(newest, "version") {
			t.Errorf("current is %s, but the newest push is %s", got, newest["version"])
		}
	})
}

func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme", access.Pro)
		var creates []func() answer
		for i := range 8 {
			archive := skill(t, fmt.Sprint(i%4))
			creates = append(creates, func() answer { return ada.create("pdf", "1", archive) })
		}
		want := []int{201, 409, 409, 409, 409, 409, 409, 409}
		if diff := cmp.Diff(want, statuses(together(creates...))); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
		w.settle()
		w.wantNoOrphans()
		if n := len(w.contents()); n != 2 {
			t.Errorf("%d contents, want the two archives of one version", n)
		}
	})
}

func TestPushAgainstRollback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		third := skill(t, "3.")
		for round := range 8 {
			id := ada.entryOf(fmt.Sprintf("pdf %d", round), 2)
			got := together(
				func() answer { return ada.push(id, "3", third) },
				func() answer { return ada.post(entryPath(id)+"/rollback", nil) })
			got[0].want(http.StatusCreated)
			got[1].want(http.StatusOK)
			// Either the push came first and was rolled back, or the other way round.
			if flags := ada.flags(id); flags != " 3r 2c 1" && flags != " 3c 2r 1" {
				t.Errorf("versions%s", flags)
			}
		}
		w.wantNoOrphans()
	})
}

func TestDeleteAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme", access.Pro)
		second := skill(t, "2.")
		for round := range 10 {
			id := ada.made(fmt.Sprint(round), "1", skill(t, "1."))
			ada.install(id, nil)
			got := together(
				func() answer { return ada.do(http.MethodDelete, entryPath(id), nil) },
				func() answer { return ada.push(id, "2", second) },
				func() answer { return ada.post(entryPath(id)+"/install", object{"device_id": "a"}) },
				func() answer { return ada.post(entryPath(id)+"/rollback", nil) },
				func() answer { return ada.get(entryPath(id)) },
				func() answer {
					return ada.post(registryPath+"/sync", object{"installations": []object{item(id, sum(nil))}})
				})
			for i, allowed := range [][]int{{204}, {201, 404}, {200, 404}, {200, 404, 409}, {200, 404}, {200}} {
				if !slices.Contains(allowed, got[i].status) {
					t.Errorf("%s: status %d, want one of %v: %s", got[i].what, got[i].status, allowed, got[i].body)
				}
			}
			if got[4].status == http.StatusOK && len(got[4].list("versions")) == 0 {
				t.Error("an entry without versions")
			}
		}
		w.settle()
		w.wantNoOrphans()
		for _, table := range []string{"registry_entries", "registry_versions", "registry_installations"} {
			if n := w.count(table); n != 0 {
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
		w := newWorld(t, db)
		w.work()
		ada := w.org("acme", access.Pro)
		archive := skill(t, "Again.")
		id := ada.made("0", "1", archive)
		for round := 1; round <= 50; round++ {
			got := together(
				func() answer { return ada.do(http.MethodDelete, entryPath(id), nil) },
				func() answer { return ada.create(fmt.Sprint(round), "1", archive) })
			got[0].want(http.StatusNoContent)
			id = text(got[1].want(http.StatusCreated).object(), "entry", "id")
			ada.get(versionPath(id, "1") + "/download").want(http.StatusOK)
		}
		w.settle()
		ada.get(versionPath(id, "1") + "/download").want(http.StatusOK)
		w.wantNoOrphans()
		if w.hadDeadlocks() {
			t.Error("deadlocks: rows are locked in different orders")
		}
	})
}

// hadDeadlocks reports whether transactions had to be tried again, as far as
// the database has counted.
func (w *world) hadDeadlocks() bool {
	w.t.Helper()
	return w.db.Dialect().Name() == "postgres" &&
		w.count(`pg_stat_database WHERE datname = current_database() AND deadlocks > 0`) > 0
}

func TestInstallAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme", access.Pro)
		id := ada.entryOf("pdf", 1)
		var installs []func() answer
		for i := range 24 {
			body := object{"device_id": fmt.Sprint(i % 6)}
			installs = append(installs, func() answer { return ada.post(entryPath(id)+"/install", body) })
		}
		for _, a := range together(installs...) {
			a.want(http.StatusOK)
		}
		if n := ada.installs(id); n != 6 {
			t.Errorf("%d installations, want 6", n)
		}
	})
}
