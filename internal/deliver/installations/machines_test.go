package installations_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// orders returns every order of the steps of two machines, each of which does
// its n steps one after the other: e.g. "AABB", "ABAB".
func orders(n int) (all []string) {
	var add func(order string, a, b int)
	add = func(order string, a, b int) {
		if a == 0 && b == 0 {
			all = append(all, order)
		}
		if a > 0 {
			add(order+"A", a-1, b)
		}
		if b > 0 {
			add(order+"B", a, b-1)
		}
	}
	add("", n, n)
	return all
}

// sorted are the versions on record of what the client installed, e.g. "1 2";
// one that is not known is "-".
func sorted(c *registrytest.Client, id string) string {
	c.T.Helper()
	var all []string
	for _, i := range c.Get(registrytest.Path + "/installed").Want(http.StatusOK).List("installations") {
		if i["entry_id"] != id {
			continue
		}
		version, known := i["version"].(string)
		if !known {
			version = "-"
		}
		all = append(all, version)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestMachinesWithoutDevice has one person on two machines, whose client never
// names a device. They ask for the skill, install it and update it, in every
// order.
func TestMachinesWithoutDevice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		archives := [][]byte{registrytest.Skill(t, "1"), registrytest.Skill(t, "2")}
		one, two := registrytest.Sum(archives[0]), registrytest.Sum(archives[1])

		for n, order := range orders(3) { // ask, install, ask again
			id := ada.Made(fmt.Sprintf("new-%d", n), "1", archives[0])
			done := map[rune]int{}
			for _, machine := range order {
				switch done[machine]++; done[machine] {
				case 1:
					ada.Sync(registrytest.Item(id, "none"))
				case 2:
					ada.Install(id, object{"install_path": "/home/" + string(machine)})
				case 3:
					ada.Sync(registrytest.Item(id, one))
				}
				if got := sorted(ada, id); strings.Contains(got, "-") {
					t.Errorf("%s: versions %s after step %d of %c", order, got, done[machine], machine)
				}
			}
			if got := sorted(ada, id); got != "1 1" {
				t.Errorf("%s: versions %s, want two installations of 1", order, got)
			}
		}

		for n, order := range orders(3) { // is behind, is up to date, still is
			id := ada.Made(fmt.Sprintf("update-%d", n), "1", archives[0])
			ada.Install(id, object{"install_path": "/home/A"})
			ada.Install(id, object{"install_path": "/home/B"})
			ada.Sync(registrytest.Item(id, one)) // before there is an update
			ada.Pushed(id, "2", archives[1])
			steps := []string{one, two, two}
			done := map[rune]int{}
			for _, machine := range order {
				ada.Sync(registrytest.Item(id, steps[done[machine]]))
				done[machine]++
				// A machine that has not reported yet has what it had.
				if got := sorted(ada, id); len(done) == 1 && !strings.Contains(got, "1") {
					t.Errorf("%s: versions %s after %d steps of %c", order, got, done[machine], machine)
				}
			}
			if got := sorted(ada, id); got != "2 2" {
				t.Errorf("%s: versions %s, want both at 2", order, got)
			}
		}
	})
}

// TestMachinesApart has two machines at two versions, without a device.
func TestMachinesApart(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 2)
		v := ada.Versions(id)
		hash := func(version string) string { return apptest.Text(v[version], "content_hash") }
		ada.Install(id, object{"install_path": "/a", "content_hash": hash("1")})
		ada.Install(id, object{"install_path": "/b"})
		step := func(when, want string, hashes ...any) {
			t.Helper()
			var items []object
			for _, h := range hashes {
				items = append(items, registrytest.Item(id, h))
			}
			ada.Sync(items...)
			if got := sorted(ada, id); got != want {
				t.Errorf("%s: versions %s, want %s", when, got, want)
			}
		}
		for range 3 {
			step("the one that is current", "1 2", hash("2"))
			step("a machine without it", "1 2", "none")
			step("an edited copy, of which nothing says which", "1 2", registrytest.Sum(nil))
		}
		step("both in one report", "1 2", hash("1"), hash("2"))
		step("and the other way round", "1 2", hash("2"), hash("1"))
		if n := w.Count(`registry_installations WHERE install_path = '/a' AND content_hash = $1`, hash("1")); n != 1 {
			t.Error("the two have changed places")
		}
		step("the first is behind", "1 2", hash("1"))
		step("and updates", "2 2", hash("2"))
		step("one of them goes back", "1 2", hash("1"))
		ada.Pushed(id, "3", registrytest.Skill(t, "3"))
		v = ada.Versions(id)
		step("the other updates without asking first", "1 3", hash("3"))
		step("the first is still there", "1 3", hash("1"))
		step("until it updates, too", "3 3", hash("3"))
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{"target_version": "2"}).Want(http.StatusOK)
		step("after a rollback both are ahead", "3 3", hash("3"))
		step("one follows", "2 3", hash("2"))
		step("and asks again", "2 3", hash("2"))
		step("the other is ahead", "2 3", hash("3"))
		step("and follows", "2 2", hash("2"))
		if n := ada.Installs(id); n != 2 {
			t.Errorf("%d installations, want 2", n)
		}
	})
}

// TestMachinesShareRecord: without a device and a path, two machines are one
// installation, which is at what was reported last.
func TestMachinesShareRecord(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 2)
		one := apptest.Text(ada.Versions(id)["1"], "content_hash")
		two := apptest.Text(ada.Install(id, nil), "content_hash")
		for _, hash := range []string{"none", two, one, "none", one, two, "none"} {
			ada.Sync(registrytest.Item(id, hash))
			want := map[string]string{one: "1", two: "2"}[hash]
			if got := sorted(ada, id); hash != "none" && got != want || got == "-" {
				t.Errorf("version %s after %s", got, hash)
			}
		}
		if ada.Install(id, nil); ada.Installs(id) != 1 {
			t.Error("the second installation is not the first")
		}
	})
}
