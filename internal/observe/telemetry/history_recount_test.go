package telemetry_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
)

// TestRecountHistory tells two organisations the same random history: one as it
// happened, the other in any order, in other bodies and with repetitions. All
// figures of both must be those of the history. -rapid.checks=1000 runs longer.
func TestRecountHistory(t *testing.T) {
	apptest.FewChecks(t, 10)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		rapid.Check(t, func(rt *rapid.T) {
			h := drawHistory(rt)
			straight, shuffled := newOrganisation(w, rt, h), newOrganisation(w, rt, h)
			straight.tell(h.inOrder(rt, straight.name()), func() int { return 100 })
			shuffled.tell(h.inAnyOrder(rt, shuffled.name()), func() int { return rapid.IntRange(1, 8).Draw(rt, "size of a body") })
			w.Settle()
			straight.compare()
			shuffled.compare()
			if rapid.Bool().Draw(rt, "erased") { // the numbers stay
				shuffled.clients[1].Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
				w.Settle()
				shuffled.compare()
			}
		})
		w.checkNumbers(t)
	})
}

// inOrder returns the pieces of a history, with the changes of prices before and
// after them.
func (h *history) inOrder(t apptest.T, org string) []piece {
	all := h.pieces(t, org)
	for i, list := range h.prices {
		if i == 0 {
			all = slices.Insert(all, 0, piece{prices: list})
		} else {
			all = append(all, piece{prices: list})
		}
	}
	return all
}

// inAnyOrder shuffles the pieces and repeats some. Only the prices keep their
// order: the last ones count.
func (h *history) inAnyOrder(t *rapid.T, org string) []piece {
	all := h.pieces(t, org)
	for range rapid.IntRange(0, 5).Draw(t, "repetitions") {
		if len(all) > 0 {
			all = append(all, rapid.SampledFrom(all).Draw(t, "again"))
		}
	}
	if len(all) > 0 {
		all = rapid.Permutation(all).Draw(t, "order")
	}
	if rapid.Bool().Draw(t, "merged") { // for a while
		at := rapid.IntRange(0, len(all)).Draw(t, "merge")
		all = slices.Insert(all, at, piece{merges: &[2]string{"notes", "pdf"}})
		at = rapid.IntRange(at+1, len(all)).Draw(t, "unmerge")
		all = slices.Insert(all, at, piece{merges: &[2]string{"notes", ""}})
	}
	at := 0
	for _, list := range h.prices {
		at = rapid.IntRange(at, len(all)).Draw(t, "prices change")
		all = slices.Insert(all, at, piece{prices: list})
		at++
	}
	return all
}

// organisation is one that a history is reported to.
type organisation struct {
	*told
	t       *rapid.T
	w       *world
	clients [2]*client
}

// newOrganisation makes an organisation with the registry and the installations of
// a history.
func newOrganisation(w *world, t *rapid.T, h *history) *organisation {
	ada := w.org(fmt.Sprint("history-", checks.Add(1)))
	o := &organisation{
		t: t, w: w, clients: [2]*client{ada.in(t), w.member(ada.Org, access.Member).in(t)},
		told: &told{history: h, org: ada.Org.ID, shelves: map[string]*shelf{}},
	}
	for i, c := range o.clients {
		o.users[i] = c.User.ID
	}
	for _, e := range h.shelves {
		o.publish(e)
		o.install(e)
	}
	return o
}

func (o *organisation) name() string { return o.clients[0].Org.Name }

func (o *organisation) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatalf("%v", err)
	}
}

// publish publishes the versions of an entry, and moves the times at which they
// became current.
func (o *organisation) publish(e *published) {
	entry := &shelf{}
	o.shelves[e.name] = entry
	for _, c := range e.currents {
		if c.version <= len(entry.versions) {
			_, err := o.w.release.Rollback(o.t.Context(), entry.id,
				release.NewRollback{OrgID: o.org, UserID: o.users[0], Target: fmt.Sprint(c.version)})
			o.must(err)
		} else {
			packed := archive(o.t, packedAs(e.name, c.version))
			p := registry.Publication{
				OrgID: o.org, UserID: o.users[0], Name: e.name, Type: registry.TypeSkill, Visibility: registry.Org,
				Source: registry.FromCLI, Version: fmt.Sprint(c.version), Archive: bytes.NewReader(packed), Size: int64(len(packed)),
			}
			var v registry.Version
			var err error
			if entry.id == "" {
				_, v, err = o.w.registry.Create(o.t.Context(), p)
				entry.id = v.EntryID
			} else {
				_, v, _, err = o.w.registry.Push(o.t.Context(), entry.id, p)
			}
			o.must(err)
			entry.versions = append(entry.versions, shelved{v.ID, v.ContentHash})
		}
		o.w.Exec(`UPDATE registry_currents SET since = $2
			WHERE id = (SELECT MAX(id) FROM registry_currents WHERE entry_id = $1)`, entry.id, store.Micros(c.since))
		entry.currents = append(entry.currents, current{entry.versions[c.version-1].id, c.since})
	}
}

// install records installations, and then moves the times from which on they were there:
// a time later today would be in the way of the next one.
func (o *organisation) install(e *published) {
	entry := o.shelves[e.name]
	for user, all := range e.installed {
		var recorded []int64
		for _, i := range all {
			hash := contentHash(o.t, "no version")
			if i.version > 0 {
				hash = entry.versions[i.version-1].hash
			}
			_, err := o.w.installations.Install(o.t.Context(), access.Caller{OrgID: o.org, UserID: o.users[user]},
				installations.New{EntryID: entry.id, ContentHash: hash})
			o.must(err)
			rows, err := o.w.DB.Query(o.t.Context(), `SELECT MAX(since) FROM installation_changes WHERE user_id = $1 AND entry_id = $2`,
				o.users[user], entry.id)
			at, err := store.One(rows, err, "change", store.Value[int64])
			o.must(err)
			recorded = append(recorded, at)
		}
		for n, i := range all {
			o.w.Exec(`UPDATE installation_changes SET since = $4 WHERE user_id = $1 AND entry_id = $2 AND since = $3`,
				o.users[user], entry.id, recorded[n], store.Micros(i.since))
		}
	}
}

// compare compares every response of the API with the history.
func (o *organisation) compare() {
	for {
		today := dayOf(time.Now())
		failures := o.differences(today)
		if dayOf(time.Now()) != today {
			continue // midnight came in between
		}
		for _, f := range failures {
			o.t.Errorf("%s", f)
		}
		return
	}
}

func (o *organisation) differences(today int) (all []string) {
	note := func(what string, want, got any) {
		if diff := cmp.Diff(apptest.Plain(o.t, want), got, nearlyCosts()...); diff != "" {
			all = append(all, fmt.Sprintf("%s of %s (-want +got):\n%s", what, o.name(), diff))
		}
	}
	by, m := o.clients[1], o.model()
	listed := map[bool][]any{true: {}, false: {}}
	for _, name := range skillNames {
		k := skillKey{o.org, name}
		spent := len(o.charges(nil, func(c charge) bool { return c.skill == name })) > 0
		if !m.named[k] && !spent {
			continue
		}
		item := m.item(k, today)
		item["confirmed"] = m.named[k]
		item["cost"] = o.cost(m, k, today)
		if cost, ok := item["cost"].(object); ok {
			item["cost_per_use"] = cost["per_use_p50"]
		}
		listed[m.named[k]] = append(listed[m.named[k]], item)
		days := rapid.SampledFrom([]int{1, 30, 31, 61}).Draw(o.t, "days")
		got := by.Get(fmt.Sprintf("/v1/skills/%s?days=%d", url.PathEscape(name), days)).Want(http.StatusOK).Object()
		skill := got["skill"].(object)
		dropEstimates(skill)
		want := m.detail(k, today, days)
		want["skill"].(object)["confirmed"], want["skill"].(object)["cost"] = m.named[k], item["cost"]
		note(name, want, any(got))
	}
	for confirmed, want := range listed {
		got := by.Get(fmt.Sprint("/v1/skills?per_page=100&confirmed=", confirmed)).Want(http.StatusOK).Object()
		for _, item := range got["skills"].([]any) {
			dropEstimates(item.(object))
		}
		note(fmt.Sprint("list of confirmed ", confirmed), object{
			"skills": want, "pagination": object{"page": 1, "per_page": 100, "total": len(want)},
		}, any(got))
	}
	for _, name := range slices.Sorted(maps.Keys(o.shelves)) {
		o.qualities(by, m, name, note)
	}
	days := rapid.SampledFrom([]int{1, 30, 31, 365}).Draw(o.t, "days of costs")
	bill := by.Get(fmt.Sprint("/v1/costs?days=", days)).Want(http.StatusOK).Object()
	if sum := sumOf(bill); sum != micros(bill["total"]) {
		all = append(all, fmt.Sprintf("the bill of %s sums up to %d, not %v", o.name(), sum, bill["total"]))
	}
	for _, item := range bill["skills"].([]any) {
		delete(item.(object), "skill_id")
	}
	note("costs", o.bill(today, days), any(bill))
	return all
}

// dropEstimates leaves out what is derived from the texts of a skill, and ids.
func dropEstimates(skill object) {
	delete(skill, "skill_id")
	if cost, ok := skill["cost"].(object); ok {
		delete(cost, "standing_per_session")
		delete(cost, "load_per_use")
	}
}

// sumOf sums up a bill in millionths.
func sumOf(bill object) (sum int64) {
	for _, item := range bill["skills"].([]any) {
		sum += micros(item.(object)["total"])
	}
	return sum + micros(bill["unattributed"])
}

func micros(dollars any) int64 {
	f, _ := dollars.(float64)
	return int64(math.Round(f * 1e6))
}

// qualities compares the quality figures of an entry's versions.
func (o *organisation) qualities(by *client, m *model, name string, note func(what string, want, got any)) {
	entry := o.shelves[name]
	want, got := object{}, object{}
	for _, v := range entry.versions {
		want[v.id] = m.quality(v.id)
	}
	for _, v := range by.Get("/api/v1/registry/" + entry.id).Want(http.StatusOK).List("versions") {
		quality := object{}
		for key := range m.quality("") {
			quality[key] = v[key]
		}
		got[v["id"].(string)] = quality
	}
	note("versions of "+name, want, any(got))
}

// nearlyCosts is nearly, and tolerates in the cost of a use the width of a bucket,
// an eighth, and in that of a success the unit of pass rates.
func nearlyCosts() []cmp.Option {
	under := func(keys ...string) func(cmp.Path) bool {
		return func(path cmp.Path) bool {
			key, ok := path.Index(-1).(cmp.MapIndex)
			if !ok {
				key, ok = path.Index(-2).(cmp.MapIndex)
			}
			return ok && slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(key.Key().String(), k) })
		}
	}
	return append(nearly(),
		cmp.FilterPath(under("per_use_", "cost_per_use"), cmpopts.EquateApprox(0.125, 1.1e-6)),
		cmp.FilterPath(under("per_success"), cmpopts.EquateApprox(1e-8, 1.1e-6)))
}
