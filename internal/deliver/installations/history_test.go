package installations_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// use is an activation of the skill pdf.
type use struct {
	id     string
	device string // "" when unknown
	hash   string // "" when unknown
	at     time.Time
}

// report reports activations, each in a session of its own.
func report(w *registrytest.World, c *registrytest.Client, uses ...use) {
	c.T.Helper()
	for _, u := range uses {
		err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) error {
			return w.Skills.Observe(w.T.Context(), tx, skills.Report{
				OrgID: c.Org.ID, UserID: c.User.ID, DeviceID: u.device,
				Observations: []skills.Observation{{
					ID: skills.ID(c.Org.ID, c.User.ID, "test", u.id), SkillName: "pdf", Session: u.id, VersionHash: u.hash,
					Triggered: true, At: u.at, NormalizedAt: u.at,
				}},
			}, nil)
		})
		if err != nil {
			c.T.Fatalf("%v", err)
		}
	}
}

// moment returns a time after everything that was done, and before whatever
// follows.
func moment() time.Time {
	at := store.Now().Add(time.Microsecond)
	for !store.Now().After(at) {
		time.Sleep(time.Microsecond)
	}
	return at
}

// bases returns how many checks count for each version by which basis, e.g.
// "1 installation": 2.
func bases(c *registrytest.Client, entryID string) map[string]int {
	c.T.Helper()
	counts := map[string]int{}
	for version, v := range c.Versions(entryID) {
		for basis, n := range v["version_basis_counts"].(object) {
			if n != 0.0 {
				counts[version+" "+basis] = int(n.(float64))
			}
		}
	}
	return counts
}

// TestInstalledVersion: an observation counts for the version that its user, or
// its device, had on record at its time.
func TestInstalledVersion(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		for i, c := range []struct {
			name string
			do   func(ada *registrytest.Client, id string, hash func(version string) any)
			by   use
			want string
		}{
			{"nothing installed", func(*registrytest.Client, string, func(string) any) {}, use{}, "3 time"},
			{"an older one", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"content_hash": hash("1")})
			}, use{}, "1 installation"},
			{"an edited copy", func(ada *registrytest.Client, id string, _ func(string) any) {
				ada.Install(id, object{"content_hash": registrytest.Sum([]byte("edited"))})
			}, use{}, "3 time"},
			{"named by the record", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"content_hash": hash("1")})
			}, use{hash: "2"}, "2 hash"},
			{"the same on two devices", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"device_id": "a", "content_hash": hash("1")})
				ada.Install(id, object{"device_id": "b", "content_hash": hash("1")})
			}, use{}, "1 installation"},
			{"different ones on two devices", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"device_id": "a", "content_hash": hash("1")})
				ada.Install(id, object{"device_id": "b", "content_hash": hash("2")})
			}, use{}, "3 time"},
			{"that of the device", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"device_id": "a", "content_hash": hash("1")})
				ada.Install(id, object{"device_id": "b", "content_hash": hash("2")})
			}, use{device: "b"}, "2 installation"},
			{"different ones on the device", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"device_id": "a", "install_path": "x", "content_hash": hash("1")})
				ada.Install(id, object{"device_id": "a", "install_path": "y", "content_hash": hash("2")})
			}, use{device: "a"}, "3 time"},
			{"on a device without a record", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"content_hash": hash("1")})
			}, use{device: "b"}, "1 installation"},
			{"gone from one of two devices", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"device_id": "a", "content_hash": hash("1")})
				ada.Install(id, object{"device_id": "b", "content_hash": hash("2")})
				ada.Sync(object{"entry_id": id, "device_id": "b", "current_version_hash": "none"})
			}, use{}, "1 installation"},
			{"gone from the device", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"device_id": "a", "content_hash": hash("1")})
				ada.Install(id, object{"device_id": "b", "content_hash": hash("2")})
				ada.Sync(object{"entry_id": id, "device_id": "b", "current_version_hash": "none"})
			}, use{device: "b"}, "3 time"},
			{"gone", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"device_id": "a", "content_hash": hash("1")})
				ada.Sync(object{"entry_id": id, "device_id": "a", "current_version_hash": "none"})
			}, use{}, "3 time"},
			{"synced", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"content_hash": hash("1")})
				ada.Sync(registrytest.Item(id, hash("2")))
			}, use{}, "2 installation"},
			{"kept through a rollback", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"content_hash": hash("3")})
				ada.Post(registrytest.EntryPath(id)+"/rollback", nil).Want(http.StatusOK)
			}, use{}, "3 installation"},
			{"synced after a rollback", func(ada *registrytest.Client, id string, hash func(string) any) {
				ada.Install(id, object{"content_hash": hash("3")})
				ada.Post(registrytest.EntryPath(id)+"/rollback", nil).Want(http.StatusOK)
				ada.Sync(registrytest.Item(id, hash("2")))
			}, use{}, "2 installation"},
			{"somebody else's", func(ada *registrytest.Client, id string, hash func(string) any) {
				w.Member(ada.Org, access.Member).Install(id, object{"content_hash": hash("1")})
			}, use{}, "3 time"},
			{"another organisation's entry", func(ada *registrytest.Client, _ string, _ func(string) any) {
				other := w.Org(ada.Org.Name+"-other", access.Pro)
				public := other.Made("pdf", "1", registrytest.Skill(t, "pdf 1"), object{"visibility": "public"})
				ada.Install(public, nil)
			}, use{}, "3 time"},
		} {
			t.Run(c.name, func(t *testing.T) {
				ada := w.Org(fmt.Sprint("acme", i), access.Pro).In(t)
				id := ada.EntryOf("pdf", 3)
				versions := ada.Versions(id)
				hash := func(version string) any { return versions[version]["content_hash"] }
				c.do(ada, id, hash)
				u := c.by
				if u.id, u.at = "s", moment(); u.hash != "" {
					u.hash = hash(u.hash).(string)
				}
				want := map[string]int{c.want: 1}
				report(w, ada, u)
				if diff := cmp.Diff(want, bases(ada, id)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				// What happens later does not matter, and neither does a report without the device.
				ada.Install(id, object{"device_id": "c"})
				u.device = ""
				report(w, ada, u)
				if diff := cmp.Diff(want, bases(ada, id)); diff != "" {
					t.Errorf("reported again (-want +got):\n%s", diff)
				}
			})
		}
	})
}

// TestChangesAtOnce has two devices that report at the same time: what all devices
// have is right after every round.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 2)
		versions := ada.Versions(id)
		want := map[string]int{}
		for round := range 10 {
			version := fmt.Sprint(1 + round%2)
			var reports []func() apptest.Response
			for _, device := range []string{"a", "b", "c"} {
				item := object{"entry_id": id, "device_id": device, "current_version_hash": versions[version]["content_hash"]}
				reports = append(reports, func() apptest.Response {
					if round == 0 {
						return ada.Post(registrytest.EntryPath(id)+"/install", object{
							"device_id": device, "content_hash": versions[version]["content_hash"],
						})
					}
					return ada.Post(registrytest.SyncPath, object{"installations": []object{item}})
				})
			}
			for _, a := range registrytest.Together(reports...) {
				a.Want(http.StatusOK)
			}
			report(w, ada, use{id: fmt.Sprint(round), at: moment()})
			want[version+" installation"]++
		}
		if diff := cmp.Diff(want, bases(ada, id)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestChangesAreBounded has a client that reports another hash every time.
func TestChangesAreBounded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "1."), object{"visibility": "public"})
		for _, c := range []*registrytest.Client{ada, bob} {
			c.Install(id, object{"device_id": "a"})
			w.Exec(`INSERT INTO installation_changes (user_id, entry_id, device_hash, since, content_hash)
				WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
				SELECT $1, $2, '', i, 'h' || i FROM n`, c.User.ID, id)
		}
		ada.Sync(object{"entry_id": id, "device_id": "a", "current_version_hash": "edited"})
		const rows = `installation_changes WHERE user_id = $1 AND device_hash `
		if n := w.Count(rows+`= ''`, ada.User.ID); n != 200 {
			t.Errorf("%d changes are kept, want 200", n)
		}
		if w.Count(rows+`= '' AND content_hash IN ('edited', 'h300')`, ada.User.ID) != 2 {
			t.Error("newer changes are gone")
		}
		if n := w.Count(rows+`<> ''`, ada.User.ID); n != 2 {
			t.Errorf("%d changes of the device, want 2", n)
		}
		if n := w.Count(rows+`= ''`, bob.User.ID); n != 301 {
			t.Errorf("%d changes of somebody else, want 301", n)
		}
		ada.Sync(object{"entry_id": id, "device_id": "a", "current_version_hash": "edited"})
		if n := w.Count(rows+`<> ''`, ada.User.ID); n != 2 {
			t.Errorf("%d changes of the device after a repeated report, want 2", n)
		}
		ada.Do(http.MethodDelete, registrytest.EntryPath(id), nil).Want(http.StatusNoContent)
		if n := w.Count(`installation_changes`); n != 0 {
			t.Errorf("%d changes of a deleted entry", n)
		}
	})
}

// TestRecountInstalled compares the attribution of observations, in any order and
// reported repeatedly, with a search in the records as they were at each time.
func TestRecountInstalled(t *testing.T) {
	apptest.FewChecks(t, 20)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		round := 0
		rapid.Check(t, func(r *rapid.T) {
			round++
			ada := w.Org(fmt.Sprint("acme", round), access.Pro)
			m := &history{T: r, World: w, ada: ada, users: []*registrytest.Client{ada, w.Member(ada.Org, access.Member)}}
			m.entry = ada.EntryOf("pdf", 2)
			for n := range rapid.IntRange(1, 25).Draw(r, "steps") {
				m.step(n)
			}
			m.reportAll()
			if diff := cmp.Diff(m.want(), bases(ada, m.entry)); diff != "" {
				r.Errorf("(-want +got):\n%s", diff)
			}
		})
		findings, err := w.Skills.Check(t.Context(), db)
		if err != nil || slices.ContainsFunc(findings, func(f invariants.Finding) bool { return f.Status != invariants.Good }) {
			t.Errorf("%v, %v", findings, err)
		}
	})
}

// A history remembers the records of installations after every step.
type history struct {
	*rapid.T
	*registrytest.World
	ada       *registrytest.Client
	entry     string
	users     []*registrytest.Client
	snapshots []snapshot
	uses      []usedBy
}

type usedBy struct {
	use
	user int
}

type snapshot struct {
	at      time.Time
	current string // version
	records []record
}

type record struct{ user, device, hash string }

func (h *history) step(n int) {
	user := rapid.IntRange(0, len(h.users)-1).Draw(h.T, "user")
	c := h.users[user]
	device := rapid.SampledFrom([]string{"", "a", "b"}).Draw(h.T, "device")
	path := rapid.SampledFrom([]string{"", "x"}).Draw(h.T, "path")
	versions := h.ada.Versions(h.entry)
	hashes := []any{"none", "edited"}
	for _, version := range []string{"1", "2", "3", "4"} {
		if v, ok := versions[version]; ok {
			hashes = append(hashes, v["content_hash"])
		}
	}
	hash := rapid.SampledFrom(hashes).Draw(h.T, "hash")
	switch rapid.SampledFrom([]string{"install", "sync", "sync unplaced", "push", "rollback", "use", "use", "use"}).Draw(h.T, "step") {
	case "install":
		c.Install(h.entry, object{"device_id": device, "install_path": path, "content_hash": hash})
	case "sync":
		c.Sync(object{"entry_id": h.entry, "device_id": device, "install_path": path, "current_version_hash": hash})
	case "sync unplaced":
		c.Sync(registrytest.Item(h.entry, hash))
	case "push":
		version := fmt.Sprint(len(versions) + 1)
		h.ada.Pushed(h.entry, version, registrytest.Skill(h.World.T, "pdf "+version))
	case "rollback":
		h.ada.Post(registrytest.EntryPath(h.entry)+"/rollback", nil) // refused if there is nothing before
	case "use":
		u := usedBy{use{id: fmt.Sprint(n), device: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(h.T, "used on"), at: moment()}, user}
		if rapid.Bool().Draw(h.T, "at once") {
			report(h.World, c, u.use)
		}
		h.uses = append(h.uses, u)
		return
	}
	h.snapshots = append(h.snapshots, h.snapshot())
}

func (h *history) snapshot() snapshot {
	s := snapshot{current: h.ada.Current(h.entry)}
	rows, err := h.DB.Query(h.World.T.Context(), `
		SELECT user_id, device_id, content_hash FROM registry_installations WHERE entry_id = $1`, h.entry)
	s.records, err = store.All(rows, err, func(row store.Row) (r record, err error) {
		err = row.Scan(&r.user, &r.device, &r.hash)
		return r, err
	})
	if err != nil {
		h.Fatalf("%v", err)
	}
	s.at = moment()
	return s
}

// reportAll reports all uses, some of them again, in any order. A second report
// may not know the device.
func (h *history) reportAll() {
	for _, u := range rapid.Permutation(h.uses).Draw(h.T, "order") {
		report(h.World, h.users[u.user], u.use)
		if rapid.Bool().Draw(h.T, "again") {
			u.device = ""
			report(h.World, h.users[u.user], u.use)
		}
	}
}

func (h *history) want() map[string]int {
	versionOf := map[string]string{}
	for name, v := range h.ada.Versions(h.entry) {
		versionOf[apptest.Text(v, "content_hash")] = name
	}
	counts := map[string]int{}
	for _, u := range h.uses {
		user := h.users[u.user].User.ID
		current, installed, ownKnown := "2", "", false
		for _, s := range h.snapshots {
			if s.at.After(u.at) {
				break
			}
			own := func(r record) bool { return r.user == user && r.device == u.device && r.hash != "" }
			ownKnown = ownKnown || u.device != "" && slices.ContainsFunc(s.records, own)
			current, installed = s.current, ""
			found := map[string]bool{}
			for _, r := range s.records {
				if r.user == user && r.hash != "" && (!ownKnown || r.device == u.device) {
					found[r.hash] = true
					installed = r.hash
				}
			}
			if len(found) != 1 {
				installed = ""
			}
		}
		if version, ok := versionOf[installed]; ok {
			counts[version+" installation"]++
		} else {
			counts[current+" time"]++
		}
	}
	return counts
}
