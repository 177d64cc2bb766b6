package sets_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// covered reads the whole coverage of a set, in pages of a size.
func covered(c *registrytest.Client, id string, size int) (all api.SetCoverage) {
	c.T.Helper()
	cursor := ""
	for {
		var page api.SetCoverage
		c.Get(fmt.Sprintf("%s/%s/coverage?limit=%d&cursor=%s", path, id, size, cursor)).Want(http.StatusOK).Into(&page)
		all.Coverage = append(all.Coverage, page.Coverage...)
		all.Complete, all.Of = page.Complete, page.Of
		if page.NextCursor == nil {
			return all
		}
		if len(page.Coverage) != size {
			c.T.Fatalf("a page of %d, want %d", len(page.Coverage), size)
		}
		cursor = *page.NextCursor
	}
}

// lines are a coverage in short, without names of people.
func lines(c api.SetCoverage) []string {
	var all []string
	for _, m := range c.Coverage {
		device := "-"
		if m.Device != nil {
			device = *m.Device
		}
		all = append(all, fmt.Sprintf("%s %s missing %v behind %v extra %d", m.Person.ID, device, m.Missing, m.Behind, m.Extra))
	}
	slices.Sort(all)
	return all
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Team)
		bob, out := person(w, ada.Org, access.Member), person(w, ada.Org, access.Member)
		pdf, sql, csv := ada.EntryOf("pdf", 2), ada.EntryOf("sql", 2), ada.EntryOf("csv", 1)
		team := makeTeam(ada, "Docs", ada.User.ID, bob.User.ID)
		id := makeSet(ada, object{"name": "docs", "teams": []string{team}, "entries": []object{
			{"name": "pdf"}, {"name": "sql", "range": "< 2"}, {"name": "csv", "range": "^9"},
		}})
		hash := func(entry, version string) any { return ada.Versions(entry)[version]["content_hash"] }
		want := func(complete, of int, want ...string) {
			t.Helper()
			for _, size := range []int{1, 2, 100} {
				got := covered(ada, id, size)
				slices.Sort(want)
				if diff := cmp.Diff(want, lines(got)); diff != "" || got.Complete != complete || got.Of != of {
					t.Errorf("%d of %d complete, want %d of %d (-want +got):\n%s", got.Complete, got.Of, complete, of, diff)
				}
			}
		}
		none := func(c *registrytest.Client) string { return c.User.ID + " - missing [pdf sql] behind [] extra 0" }
		want(0, 2, none(ada), none(bob))
		out.Install(pdf, object{"device_id": "laptop"})
		ada.Install(pdf, object{"device_id": "laptop"})
		ada.Install(csv, object{"device_id": "laptop"})
		ada.Install(sql, object{"device_id": "laptop", "content_hash": hash(sql, "2")})
		ada.Install(sql, object{"device_id": "desk", "content_hash": hash(sql, "1")})
		desk := ada.User.ID + " desk missing [pdf] behind [] extra 0"
		want(0, 3, ada.User.ID+" laptop missing [] behind [sql] extra 0", desk, none(bob))
		ada.Install(sql, object{"device_id": "laptop", "content_hash": hash(sql, "1")})
		want(1, 3, ada.User.ID+" laptop missing [] behind [] extra 0", desk, none(bob))
		// A second copy that is behind counts, and so does one that was edited.
		ada.Install(sql, object{"device_id": "laptop", "install_path": "/elsewhere", "content_hash": strings.Repeat("e", 64)})
		want(0, 3, ada.User.ID+" laptop missing [] behind [sql] extra 0", desk, none(bob))
		// A push puts everyone behind, without a word of theirs.
		ada.Pushed(pdf, "3", registrytest.Skill(t, "pdf 3"))
		want(0, 3, ada.User.ID+" laptop missing [] behind [pdf sql] extra 0", desk, none(bob))
		// A sync reports what is there now.
		item := registrytest.Item(pdf, hash(pdf, "3"))
		item["device_id"] = "laptop"
		ada.Sync(item)
		want(0, 3, ada.User.ID+" laptop missing [] behind [sql] extra 0", desk, none(bob))
		// What was taken away is missing again.
		item["current_version_hash"] = "none"
		ada.Sync(item)
		want(0, 3, ada.User.ID+" laptop missing [pdf] behind [sql] extra 0", desk, none(bob))
		ada.Do(http.MethodDelete, registrytest.EntryPath(sql), nil).Want(http.StatusNoContent)
		want(0, 2, ada.User.ID+" laptop missing [pdf] behind [] extra 0", strings.Replace(none(bob), "pdf sql", "pdf", 1))
		w.Work()
		w.RunNow("registry.recount-machines")
		if n := w.Count("installation_machines WHERE digest = ''"); n != 0 {
			t.Errorf("%d machines wait for their digest", n)
		}
		want(0, 2, ada.User.ID+" laptop missing [pdf] behind [] extra 0", strings.Replace(none(bob), "pdf sql", "pdf", 1))
		ada.Do(http.MethodDelete, "/api/v1/teams/"+team, nil).Want(http.StatusNoContent)
		want(0, 0)
	})
}

// TestCoverageRecount compares the coverage with one that is counted from the records, after each of
// many random steps.
func TestCoverageRecount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Team)
		people := []*registrytest.Client{ada, person(w, ada.Org, access.Member), person(w, ada.Org, access.Member)}
		users := []string{}
		for _, p := range people {
			users = append(users, p.User.ID)
		}
		team := makeTeam(ada, "Docs", users...)
		var entries []string
		versions, wanted := map[string]int{}, []object{}
		for _, name := range []string{"a", "b", "c", "d"} {
			id := ada.EntryOf(name, 2)
			entries, versions[id] = append(entries, id), 2
		}
		for i, limits := range []any{nil, "< 3", "9"} {
			wanted = append(wanted, object{"entry_id": entries[i], "range": limits})
		}
		id := makeSet(ada, object{"name": "docs", "teams": []string{team}, "entries": wanted})
		random := rand.New(rand.NewPCG(1, 2))
		steps := 60
		if testing.Short() {
			steps = 20
		}
		for step := range steps {
			who, entry := people[random.IntN(2)], entries[random.IntN(len(entries))]
			device := []string{"", "laptop", "desk"}[random.IntN(3)]
			hash := ada.Versions(entry)[fmt.Sprint(1+random.IntN(versions[entry]))]["content_hash"]
			switch random.IntN(8) {
			case 0:
				versions[entry]++
				ada.Pushed(entry, fmt.Sprint(versions[entry]), registrytest.Skill(t, fmt.Sprint(entry, versions[entry])))
			case 1, 2:
				item := registrytest.Item(entry, []any{hash, "none", strings.Repeat("f", 64)}[random.IntN(3)])
				item["device_id"] = device
				who.Sync(item)
			case 3:
				registrytest.Together(
					func() apptest.Response {
						return who.Post(registrytest.EntryPath(entry)+"/install", object{"device_id": device, "content_hash": hash})
					},
					func() apptest.Response {
						return who.Post(registrytest.EntryPath(entries[0])+"/install", object{"device_id": device})
					})
			default:
				who.Install(entry, object{"device_id": device, "content_hash": hash, "install_path": fmt.Sprint("/", random.IntN(2))})
			}
			var set struct{ Set api.Set }
			ada.Get(path + "/" + id).Want(http.StatusOK).Into(&set)
			want, complete := recount(t, db, set.Set, users)
			got := covered(ada, id, 1+random.IntN(4))
			if diff := cmp.Diff(want, lines(got)); diff != "" || got.Complete != complete || got.Of != len(want) {
				t.Fatalf("step %d: %d of %d complete, want %d of %d (-want +got):\n%s", step, got.Complete, got.Of, complete, len(want), diff)
			}
		}
	})
}

// recount counts a coverage from the records of installations.
func recount(t *testing.T, db *store.DB, set api.Set, users []string) (all []string, complete int) {
	t.Helper()
	has := map[[2]string]map[string][]string{}
	rows, err := db.Query(t.Context(), `SELECT user_id, device_id, entry_id, content_hash FROM registry_installations`)
	err = store.Each(rows, err, func(row store.Row) error {
		var user, device, entry, hash string
		if err := row.Scan(&user, &device, &entry, &hash); err != nil {
			return err
		}
		at := [2]string{user, device}
		if has[at] == nil {
			has[at] = map[string][]string{}
		}
		if hash != "" {
			has[at][entry] = append(has[at][entry], hash)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range users {
		idle := true
		for at := range has {
			idle = idle && at[0] != user
		}
		if idle {
			has[[2]string{user, "-"}] = nil
		}
	}
	for at, entries := range has {
		missing, behind, extra := []string{}, []string{}, len(entries)
		for _, e := range set.Entries {
			if _, ok := entries[e.EntryID]; ok {
				extra--
			}
			if e.Unsatisfied {
				continue
			}
			switch hashes := entries[e.EntryID]; {
			case len(hashes) == 0:
				missing = append(missing, e.Name)
			case slices.ContainsFunc(hashes, func(h string) bool { return h != *e.ContentHash }):
				behind = append(behind, e.Name)
			}
		}
		if len(missing)+len(behind) == 0 {
			complete++
		}
		if at[1] == "" {
			at[1] = "-"
		}
		all = append(all, fmt.Sprintf("%s %s missing %v behind %v extra %d", at[0], at[1], missing, behind, extra))
	}
	slices.Sort(all)
	return all, complete
}
