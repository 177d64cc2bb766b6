package telemetry_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestRecount sends random pushes of several users of two organisations, and
// compares every figure with a recount of the accepted records.
// -rapid.checks=1000 runs longer.
func TestRecount(t *testing.T) {
	apptest.FewChecks(t, 20)
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		rapid.Check(t, func(rt *rapid.T) {
			s := newStream(w, rt)
			for range rapid.IntRange(2, 14).Draw(rt, "steps") {
				s.step()
			}
			s.compare()
		})
	})
}

// stream is the input of one check.
type stream struct {
	*rapid.T
	w       *world
	m       *model
	now     time.Time
	pushers []*client
	sent    []sentPush
	bare    map[string]bool // what was pushed without a push_id, by user
	ticks   int             // makes times of the registry differ
}

type sentPush struct {
	by        *client
	id        string
	canonical object
	apply     func() // to the model
	want      object
}

// checks numbers the organisations of all checks.
var checks atomic.Int64

func newStream(w *world, t *rapid.T) *stream {
	s := &stream{T: t, w: w, m: newModel(), now: time.Now().UTC().Truncate(time.Millisecond), bare: map[string]bool{}}
	for i := range 2 {
		ada := w.org(fmt.Sprintf("org %d of check %d", i, checks.Add(1)))
		s.pushers = append(s.pushers, ada.in(t), w.member(ada.Org, access.Member).in(t))
	}
	return s
}

func pick[T any](s *stream, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(s.T, label)
}

// step performs one random action.
func (s *stream) step() {
	switch what := rapid.IntRange(0, 9).Draw(s.T, "what"); {
	case what < 6 || len(s.sent) == 0 && what < 8:
		s.push(s.newPush())
	case what == 6: // the same push again
		again := pick(s, "again", s.sent...)
		if again.id != "" {
			again.by.push(again.id, again.canonical).Want(http.StatusOK).
				WantBody(object{
					"status": "accepted", "push_id": again.id, "duplicate": true, "accepted": 0, "unattributed": 0,
					"rejected": []any{},
				})
		}
	case what == 7: // the same records under another name
		again := pick(s, "again", s.sent...)
		again.id = uuid.NewString()
		s.push(again)
	default:
		s.changeRegistry()
	}
}

func (s *stream) push(p sentPush) {
	raw, err := json.Marshal(p.canonical)
	if err != nil {
		s.Fatalf("%v", err)
	}
	key := p.by.User.ID + string(raw)
	if p.id == "" && s.bare[key] {
		p.by.push("", p.canonical).Want(http.StatusOK)
		return
	}
	s.bare[key] = s.bare[key] || p.id == ""
	got := p.by.push(p.id, p.canonical).Want(http.StatusCreated).Object()
	delete(got, "push_id")
	delete(p.want, "push_id")
	for _, r := range got["rejected"].([]any) {
		delete(r.(object), "message")
	}
	if diff := cmp.Diff(apptest.Plain(s.T, p.want), any(got)); diff != "" {
		s.Errorf("answer of a push (-want +got):\n%s", diff)
	}
	p.apply()
	s.sent = append(s.sent, p)
}

// newPush draws a push and its expected result.
func (s *stream) newPush() sentPush {
	p := sentPush{by: pick(s, "by", s.pushers...), id: pick(s, "push_id", "", uuid.NewString()), canonical: object{}}
	var effects []func()
	var rejected []any
	hidden, accepted := 0, 0
	add := func(array, kind string, d drawn) {
		all, _ := p.canonical[array].([]any)
		p.canonical[array] = append(all, d.record)
		switch {
		case d.broken:
			rejected = append(rejected, object{"kind": kind, "index": len(all)})
			return
		case d.hidden:
			hidden++
		default:
			effects = append(effects, d.apply)
		}
		accepted++
	}
	for range rapid.IntRange(1, 6).Draw(s.T, "invocations") {
		add("skill_invocations", "skill_invocation", s.invocation(p.by))
	}
	for range rapid.IntRange(0, 2).Draw(s.T, "offers") {
		add("skill_offers", "skill_offer", s.offer(p.by))
	}
	for range rapid.IntRange(0, 4).Draw(s.T, "gradings") {
		add("grading_results", "grading_result", s.grading(p.by))
	}
	p.want = object{"status": "accepted", "accepted": accepted, "unattributed": hidden, "rejected": append([]any{}, rejected...)}
	p.apply = func() {
		for _, effect := range effects {
			effect()
		}
		s.m.pushed()
	}
	return p
}

// drawn is a record and its expected result.
type drawn struct {
	record         object
	broken, hidden bool
	apply          func()
}

// time draws a valid time, often at the edge of a window.
func (s *stream) time(label string) time.Time {
	if rapid.IntRange(0, 19).Draw(s.T, label+" ahead") == 0 {
		return s.now.Add(23 * time.Hour)
	}
	days := pick(s, label, 0, 0, 1, 2, 28, 29, 30, 31, 58, 59, 60, 61, 100)
	midnight := s.now.Truncate(24 * time.Hour)
	return midnight.AddDate(0, 0, -days).Add(time.Duration(rapid.IntRange(0, 24*60-1).Draw(s.T, "minute")) * time.Minute)
}

// skill draws a name and its skill; none if the name is hidden.
func (s *stream) skill() (written, name string) {
	written = pick(s, "skill", "pdf", "pdf", "pdf", "dir/sub skill", " pdf\n", "custom_skill", "third-party", "")
	if name = strings.TrimSpace(written); name == "custom_skill" || name == "third-party" {
		name = ""
	}
	return written, name
}

// spoil makes a record invalid in one of many ways.
func (s *stream) spoil(record object, ways ...func()) bool {
	if rapid.IntRange(0, 11).Draw(s.T, "spoil") != 0 {
		return false
	}
	pick(s, "way", append(ways,
		func() { record["session_id"] = 5 },
		func() { delete(record, "session_id") },
		func() { record["skill_name"] = nil },
		func() { record["skill_name"] = strings.Repeat("x", 201) },
	)...)()
	return true
}

func optional[T any](record object, key string, value *T) {
	if value != nil {
		record[key] = *value
	}
}

func p[T any](v T) *T { return &v }

func (s *stream) invocation(by *client) drawn {
	id := fmt.Sprint("i", rapid.IntRange(0, 7).Draw(s.T, "id"))
	written, name := s.skill()
	i := invocation{
		skill: skillKey{by.Org.ID, name}, user: by.User.ID, session: fmt.Sprint("s", rapid.IntRange(0, 4).Draw(s.T, "session")),
		at: s.time("at"), triggered: rapid.Bool().Draw(s.T, "triggered"),
		confidence: pick(s, "confidence", nil, nil, p(0.0), p(0.1), p(0.25), p(0.333), p(0.7), p(1.0)),
		hash:       pick(s, "hash", "", "", "", contentHash(s.T, "first"), contentHash(s.T, "second"), "unknown"),
	}
	record := object{
		"skill_invocation_id": id, "session_id": i.session, "skill_name": written,
		"occurred_at": i.at.Format(time.RFC3339Nano), "triggered": i.triggered, "confidence": nil, "unknown": []any{1},
	}
	optional(record, "confidence", i.confidence)
	if i.hash != "" {
		record["skill_version_hash"] = i.hash
	}
	if rapid.Bool().Draw(s.T, "has tool call") {
		record["tool_call_id"] = "call 1" // also of other records
	}
	i.said = i.at
	switch hour := rapid.IntRange(0, 6).Draw(s.T, "normalized"); hour {
	case 0:
	case 1:
		record["normalized_at"] = "yesterday"
	default:
		i.said = s.now.Add(time.Duration(hour-7) * time.Hour)
		record["normalized_at"] = i.said.Format(time.RFC3339Nano)
	}
	broken := s.spoil(record,
		func() { record["occurred_at"] = s.now.Add(25 * time.Hour).Format(time.RFC3339) },
		func() { delete(record, "triggered") },
		func() { record["confidence"] = 1.01 },
		func() { record["skill_invocation_id"] = "" })
	return drawn{record, broken, name == "", func() { s.m.invoked(id, i) }}
}

func (s *stream) offer(by *client) drawn {
	session, at := fmt.Sprint("s", rapid.IntRange(0, 4).Draw(s.T, "session")), s.time("at")
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"pdf", " pdf", "dir/sub skill", "third-party", ""}), 0, 3).Draw(s.T, "names")
	record := object{"session_id": session, "occurred_at": at.Format(time.RFC3339Nano), "skill_names": names}
	broken := rapid.IntRange(0, 11).Draw(s.T, "spoil") == 0
	if broken {
		pick(s, "way",
			func() { delete(record, "session_id") },
			func() { record["occurred_at"] = s.now.Add(25 * time.Hour).Format(time.RFC3339) },
			func() { record["skill_names"] = "pdf" },
			func() { record["skill_names"] = append(names, strings.Repeat("x", 201)) },
			func() { record["skill_names"] = make([]string, 1001) },
		)()
	}
	return drawn{record, broken, false, func() {
		for _, written := range names {
			if name := strings.TrimSpace(written); name != "" && name != "third-party" {
				s.m.offered(invocation{skill: skillKey{by.Org.ID, name}, user: by.User.ID, session: session, at: at})
			}
		}
	}}
}

func (s *stream) grading(by *client) drawn {
	id := fmt.Sprint("g", rapid.IntRange(0, 7).Draw(s.T, "id"))
	written, name := s.skill()
	g := grading{
		skill: skillKey{by.Org.ID, name}, user: by.User.ID, session: fmt.Sprint("s", rapid.IntRange(0, 4).Draw(s.T, "session")),
		at: s.time("at"),
	}
	record := object{
		"grading_id": id, "session_id": g.session, "skill_name": written,
		"graded_at": g.at.Format(time.RFC3339Nano), "pass_rate": nil,
	}
	if rapid.Bool().Draw(s.T, "counted") {
		counts := pick(s, "counts", [2]int64{0, 0}, [2]int64{1, 3}, [2]int64{2, 3}, [2]int64{5, 6}, [2]int64{4, 5},
			[2]int64{0, 4}, [2]int64{7, 7})
		record["passed_count"], record["total_count"] = counts[0], counts[1]
		if counts[1] > 0 {
			g.rate = big.NewRat(counts[0], counts[1])
		}
	} else if rate := pick(s, "rate", nil, p(0.0), p(0.5), p(0.8), p(0.75), p(1.0)); rate != nil {
		record["pass_rate"], g.rate = *rate, exact(*rate)
	}
	broken := s.spoil(record,
		func() { record["graded_at"] = "2026-13-01T00:00:00Z" },
		func() { record["pass_rate"] = -0.1 },
		func() { record["pass_rate"], record["passed_count"], record["total_count"] = nil, 3, 2 })
	return drawn{record, broken, name == "", func() { s.m.graded(id, g) }}
}
