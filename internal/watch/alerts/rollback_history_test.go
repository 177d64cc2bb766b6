package alerts_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// TestRollbackHistories compares which version is current after every step of random
// histories with a model of the registry and the alert.
func TestRollbackHistories(t *testing.T) {
	apptest.FewChecks(t, 12)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		gate := &holding{}
		w.alerts.Registry.OnPush = gate
		round := 0
		rapid.Check(t, func(r *rapid.T) {
			round++
			h := &rollbackHistory{T: r, client: w.org(fmt.Sprint("acme", round)), gate: gate}
			h.push()
			h.grade(1)
			h.alert = h.client.alert(apptest.With(passRate(hookURL), object{
				"skill_id": h.skill("pdf"), "action": "rollback", "sensitivity": "confident", "threshold": historyThreshold,
			}))
			for range rapid.IntRange(5, 25).Draw(r, "steps") {
				h.step()
				h.compare()
			}
		})
	})
}

const historyThreshold = 0.9

// holding is a gate that makes the next version a candidate or not.
type holding struct{ hold bool }

func (h *holding) Admit(context.Context, *store.Tx, registry.Entry, registry.Version) (*api.Gate, bool, error) {
	return nil, h.hold, nil
}

// A rollbackHistory does what people and agents do with an entry, and keeps a model of it.
type rollbackHistory struct {
	*rapid.T
	*client
	gate         *holding
	entryID      string
	alert        string
	versions     []*modelVersion
	currents     []*modelVersion // oldest first
	current      *modelVersion   // nil if none is
	unattributed modelVersion    // counts the sessions before a version was current
	rollbacks    []modelRollback
	firing       bool
	healthy      int // evaluations in a row
}

type modelVersion struct {
	name           string
	content        int
	passed, failed int
	state          registry.State
	marked         bool // as rolled back
	wasTakenBack   bool // there was a rollback from it
}

type modelRollback struct {
	from             *modelVersion
	unmarked, undone bool
	currents         int // so many versions had been current then
}

// breaches reports whether these sessions are surely below the threshold, and whether
// there are enough of them.
func breaches(passed, failed int) (breached, enough bool) {
	n := passed + failed
	if n < 5 {
		return false, false
	}
	_, high := stats.Wilson(float64(passed)/float64(n), n)
	return high < historyThreshold, true
}

func (v *modelVersion) breaches() bool {
	breached, _ := breaches(v.passed, v.failed)
	return breached
}

func (h *rollbackHistory) step() {
	switch rapid.SampledFrom([]string{
		"evaluate", "evaluate", "evaluate", "session", "session", "sessions", "sessions", "sessions", "push", "push",
		"promote", "roll back", "undo", "withdraw", "restore", "acknowledge",
	}).Draw(h.T, "step") {
	case "evaluate":
		h.evaluate()
	case "session":
		h.grade(1)
	case "sessions":
		h.grade(rapid.IntRange(2, 9).Draw(h.T, "sessions"))
	case "push":
		h.push()
	case "promote":
		h.promote()
	case "roll back":
		h.rollBack()
	case "undo":
		h.undo()
	case "withdraw":
		h.withdraw()
	case "restore":
		h.restore()
	case "acknowledge": // must not end the rollbacks
		h.Post(alertsPath+"/"+h.alert+"/ack", nil)
	}
}

func (h *rollbackHistory) compare() {
	current, rollbacks := h.entry(h.entryID)
	want := ""
	if h.current != nil {
		want = h.current.name
	}
	if current != want || len(rollbacks) != len(h.rollbacks) {
		h.Fatalf("current %q after %d rollbacks, want %q after %d", current, len(rollbacks), want, len(h.rollbacks))
	}
}

func (h *rollbackHistory) evaluate() {
	h.w.evaluate(h.client, 1)
	passed, failed := h.unattributed.passed, h.unattributed.failed
	for _, v := range h.versions {
		passed, failed = passed+v.passed, failed+v.failed
	}
	breached, enough := breaches(passed, failed)
	switch {
	case breached:
		h.firing, h.healthy = true, 0
	case enough && h.firing:
		if h.healthy++; h.healthy == 2 {
			h.firing, h.healthy = false, 0
		}
	}
	if !breached || h.current == nil || !h.current.breaches() || h.current.wasTakenBack {
		return
	}
	for _, v := range slices.Backward(h.currents) {
		bad := func(b *modelVersion) bool { return b.content == v.content && (b.marked || b == h.current) }
		if !v.marked && v.state == registry.Published && !slices.ContainsFunc(h.versions, bad) && !v.breaches() {
			h.rolledBack(h.current, v)
			return
		}
	}
}

// grade reports sessions that pass or fail, of the version that is current or was last.
func (h *rollbackHistory) grade(n int) {
	of := &h.unattributed
	if len(h.currents) > 0 {
		of = h.currents[len(h.currents)-1]
	}
	grade := rapid.SampledFrom([]float64{0, 0, 1}).Draw(h.T, "grade")
	h.sessions("pdf", repeat(grade, n)...)
	if grade == 1 {
		of.passed += n
	} else {
		of.failed += n
	}
}

// push publishes a version, with a new content or that of another one.
func (h *rollbackHistory) push() {
	v := &modelVersion{name: fmt.Sprintf("1.%d.0", len(h.versions)), content: len(h.versions), state: registry.Published}
	if len(h.versions) > 0 && rapid.IntRange(0, 4).Draw(h.T, "same content") == 0 {
		v.content = rapid.SampledFrom(h.versions).Draw(h.T, "content of").content
	}
	h.gate.hold = rapid.IntRange(0, 3).Draw(h.T, "hold") == 0
	status := http.StatusCreated
	if h.gate.hold {
		v.state, status = registry.Candidate, http.StatusAccepted
	}
	h.entryID = h.pushText(h.entryID, "pdf", v.name, fmt.Sprint("content ", v.content), status)
	h.versions = append(h.versions, v)
	if !h.gate.hold {
		h.makeCurrent(v)
	}
}

func (h *rollbackHistory) makeCurrent(v *modelVersion) {
	h.current, h.currents = v, append(h.currents, v)
}

func (h *rollbackHistory) promote() {
	v := rapid.SampledFrom(h.versions).Draw(h.T, "promoted")
	if h.decide(v, "promote", v.state == registry.Candidate) {
		v.state = registry.Published
		h.makeCurrent(v)
	}
}

// decide asks for something that a person decides about a version, which is refused
// unless it may be done.
func (h *rollbackHistory) decide(v *modelVersion, what string, may bool) bool {
	h.ask("/versions/"+v.name+"/"+what, object{"reason": "so"}, may)
	return may
}

func (h *rollbackHistory) ask(path string, body object, may bool) {
	status := http.StatusConflict
	if may {
		status = http.StatusOK
	}
	h.Post("/api/v1/registry/"+h.entryID+path, body).Want(status)
}

// before is the version that a rollback without a target makes current.
func (h *rollbackHistory) before() *modelVersion {
	for _, v := range slices.Backward(h.currents) {
		if v != h.current && !v.marked && v.state == registry.Published {
			return v
		}
	}
	return nil
}

// rollBack rolls back by hand, to a version that is named or not.
func (h *rollbackHistory) rollBack() {
	body, to := object{}, h.before()
	if rapid.Bool().Draw(h.T, "with a target") {
		if to = rapid.SampledFrom(h.versions).Draw(h.T, "target"); to == h.current || to.state != registry.Published {
			h.ask("/rollback", object{"target_version": to.name}, false)
			return
		}
		body["target_version"] = to.name
	}
	may := to != nil && len(h.currents) > 0
	if h.ask("/rollback", body, may); may {
		h.rolledBack(h.currents[len(h.currents)-1], to)
	}
}

func (h *rollbackHistory) rolledBack(from, to *modelVersion) {
	r := modelRollback{from: from, unmarked: to.marked}
	to.marked, from.marked, from.wasTakenBack = false, true, true
	h.makeCurrent(to)
	r.currents = len(h.currents)
	h.rollbacks = append(h.rollbacks, r)
}

func (h *rollbackHistory) undo() {
	var last modelRollback
	if n := len(h.rollbacks); n > 0 {
		last = h.rollbacks[n-1]
	}
	may := last.from != nil && !last.undone && last.currents == len(h.currents) && last.from.state == registry.Published
	if h.ask("/rollback/undo", object{}, may); !may {
		return
	}
	h.rollbacks[len(h.rollbacks)-1].undone = true
	if last.from.marked = false; last.unmarked && h.current != nil {
		h.current.marked = true
	}
	h.makeCurrent(last.from)
}

// withdraw takes a version from use; without a version before, none is current then.
func (h *rollbackHistory) withdraw() {
	v := rapid.SampledFrom(h.versions).Draw(h.T, "withdrawn")
	if !h.decide(v, "withdraw", v.state != registry.Withdrawn) {
		return
	}
	if v == h.current {
		if to := h.before(); to != nil {
			h.rolledBack(v, to)
		} else {
			h.current = nil
		}
	}
	v.state = registry.Withdrawn
}

func (h *rollbackHistory) restore() {
	v := rapid.SampledFrom(h.versions).Draw(h.T, "restored")
	if !h.decide(v, "restore", v.state == registry.Withdrawn) {
		return
	}
	v.state = registry.Published
	if h.current == nil && slices.Contains(h.currents, v) {
		h.makeCurrent(v)
	}
}
