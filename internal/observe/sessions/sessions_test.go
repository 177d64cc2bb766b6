package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

// TestShapes: every field of the contract, in the list and in the detail.
func TestShapes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		w.ingest(ada, report{
			sightings: []sessions.Sighting{{Session: "s1", Agent: "claude-code", At: start}},
			events: []sessions.Event{
				{Session: "s1", Kind: sessions.Prompt, ID: "p1", At: start},
				tool("s1", "c1", 2*time.Second, true),
				tool("s1", "c2", 4*time.Second, false),
				{Session: "s1", Kind: sessions.Error, ID: "e1", At: after(8 * time.Second), Name: "overloaded_error", OK: ptr(false)},
			},
			requests: []costs.Request{{
				ID: "r1", Session: "s1", At: after(6 * time.Second), Model: "claude-sonnet-4-5", Tokens: costs.Tokens{Input: 1000, Output: 234},
				Micros: ptr(int64(5400)),
			}},
			observations: []skills.Observation{used(ada, "s1", "pdf", true), offered(ada, "s1", "deploy")},
			gradings:     []skills.Grading{graded(ada, "s1", "pdf", 0.75)},
		})
		w.ingest(ada, seen("s2", time.Hour))

		first := `"session_id": "s1", "agent": "claude-code", "started_at": "2026-03-04T05:06:07.000Z",
			"ended_at": "2026-03-04T05:06:15.000Z", "turns": 1, "tool_calls": 2, "tool_errors": 1,
			"skills": [{"name": "pdf", "activated": true, "offered": false, "version": null},
				{"name": "deploy", "activated": false, "offered": true, "version": null}],
			"grade": {"pass_rate": 0.75, "basis": "pushed"}, "cost_usd": 0.0054, "has_content": false`
		ada.Get("/v1/sessions").WantJSON(http.StatusOK, `{"sessions": [
			{"session_id": "s2", "agent": "claude-code", "started_at": "2026-03-04T06:06:07.000Z",
				"ended_at": "2026-03-04T06:06:07.000Z", "turns": null, "tool_calls": null, "tool_errors": null, "skills": [], "grade": null,
				"cost_usd": null, "has_content": false},
			{`+first+`}], "next_cursor": null}`)

		event := func(at, kind, name string, fields object) object {
			return apptest.With(object{
				"at": "2026-03-04T05:" + at + ".000Z", "kind": kind, "name": name, "duration_ms": nil, "ok": nil, "tokens": nil,
				"cost_usd": nil, "text": nil,
			}, fields)
		}
		var detail object
		ada.Get("/v1/sessions/s1").Want(http.StatusOK).Into(&detail)
		want := object{"truncated": false, "events": []any{
			event("06:07", "prompt", "", nil),
			event("06:08", "activation", "pdf", object{"ok": true}),
			event("06:09", "tool", "Bash", object{"ok": true, "duration_ms": 1500}),
			event("06:11", "tool", "Bash", object{"ok": false, "duration_ms": 1500}),
			event("06:13", "response", "claude-sonnet-4-5", object{"tokens": 1234, "cost_usd": 0.0054}),
			event("06:15", "error", "overloaded_error", object{"ok": false}),
			event("07:07", "grade", "pdf", object{"ok": true}),
		}, "grades": []any{object{
			"id": skills.ID(ada.Org.ID, ada.User.ID, "grading", "s1 pdf"), "session_id": "s1", "skill": "pdf", "pass_rate": 0.75,
			"basis": "pushed", "judge": nil, "evidence": []any{}, "reason": nil, "graded_by": nil, "graded_at": "2026-03-04T05:07:07.000Z",
		}}}
		if err := json.Unmarshal([]byte("{"+first+"}"), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(apptest.Plain(t, object{"session": want, "next_cursor": nil}), any(detail)); diff != "" {
			t.Errorf("detail (-want +got):\n%s", diff)
		}
		w.wantSound()
	})
}

// TestOrder: the answers do not depend on the order of reports, on how they are
// split, or on how often they arrive.
func TestOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		random := rand.New(rand.NewPCG(3, 4))
		var want [3]string
		for round := range 6 {
			ada := w.Org(fmt.Sprint("acme-", round))
			reports := []report{
				seen("a", -time.Minute), seen("a", time.Hour), seen("b", time.Minute),
				{sightings: []sessions.Sighting{{Session: "a", At: after(0), EndedAt: ptr(after(2 * time.Hour))}}},
				{observations: []skills.Observation{used(ada, "a", "pdf", true)}, sightings: seen("a", time.Second).sightings},
				{observations: []skills.Observation{used(ada, "a", "pdf", false)}, sightings: seen("a", time.Second).sightings},
				{observations: []skills.Observation{offered(ada, "a", "pdf"), offered(ada, "b", "zip")}, sightings: append(seen("a", time.Second).sightings, seen("b", time.Second).sightings...)},
				{gradings: []skills.Grading{graded(ada, "a", "pdf", 1)}, sightings: []sessions.Sighting{{Session: "a", At: after(50 * time.Hour), Outside: true}}},
				{gradings: []skills.Grading{graded(ada, "b", "pdf", 0.25)}, sightings: []sessions.Sighting{{Session: "b", At: after(-50 * time.Hour), Outside: true}}},
			}
			for i := range 20 {
				d := time.Duration(i)*time.Minute + time.Millisecond // not at the same time as an activation or a grade
				e := tool("a", fmt.Sprint("call-", i%7), d, i%3 > 0)
				if i%2 == 0 {
					e.Duration, e.Name = nil, ""
				}
				reports = append(reports, report{events: []sessions.Event{e}})
				reports = append(reports, report{events: []sessions.Event{
					{Session: "b", Kind: sessions.Prompt, ID: fmt.Sprint(i % 4), At: after(d)},
					outcome("b", fmt.Sprint(i%5), sessions.TestsPassed, d, i%3 > 0),
					outcome("b", fmt.Sprint(i%3), sessions.CommitSurvived, d, i%6 > 0),
				}})
			}
			reports = append(reports, reports[random.IntN(len(reports)):]...) // some of them twice
			if round > 0 {
				random.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
			}
			w.ingest(ada, reports...)
			got := [3]string{
				string(ada.Get("/v1/sessions").Want(http.StatusOK).Body), string(ada.Get("/v1/sessions/a").Want(http.StatusOK).Body),
				string(ada.Get("/v1/sessions/b").Want(http.StatusOK).Body),
			}
			for i, body := range got { // the ids of gradings depend on the organisation
				got[i] = strings.NewReplacer(skills.ID(ada.Org.ID, ada.User.ID, "grading", "a pdf"), "A",
					skills.ID(ada.Org.ID, ada.User.ID, "grading", "b pdf"), "B").Replace(body)
			}
			if round == 0 {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("round %d (-first +now):\n%s", round, diff)
			}
			w.wantSound()
		}
	})
}

func TestFilters(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		w.ingest(ada,
			seen("a", 0), seen("b", time.Hour), seen("c", 2*time.Hour),
			report{sightings: []sessions.Sighting{{Session: "d", Agent: "codex", At: after(3 * time.Hour)}}},
			report{observations: []skills.Observation{
				used(ada, "a", "pdf", true), at(used(ada, "b", "pdf", false), time.Hour),
				at(offered(ada, "c", "pdf"), 2*time.Hour), at(used(ada, "c", "zip", true), 2*time.Hour),
			}},
			report{gradings: []skills.Grading{
				graded(ada, "a", "pdf", 1), graded(ada, "b", "pdf", 0.25), graded(ada, "c", "zip", 0.5), graded(ada, "b", "zip", 1),
			}},
			report{events: []sessions.Event{tool("b", "1", time.Hour, false), tool("d", "1", 3*time.Hour, true)}},
		)
		w.ingest(bob, seen("e", 4*time.Hour))
		pdf := resolve(t, db, ada.Org.ID, "pdf")
		for query, want := range map[string][]string{
			"":                                     {"e", "d", "c", "b", "a"},
			"limit=1":                              {"e", "d", "c", "b", "a"},
			"limit=2":                              {"e", "d", "c", "b", "a"},
			"skill=pdf":                            {"c", "b", "a"},
			"skill=" + pdf:                         {"c", "b", "a"},
			"skill=pdf&limit=1":                    {"c", "b", "a"},
			"skill=pdf&activated=true":             {"a"},
			"skill=pdf&activated=false":            {"c", "b"},
			"skill=pdf&outcome=pass":               {"a"},
			"skill=pdf&outcome=fail":               {"b"},
			"skill=pdf&graded=false":               {"c"},
			"skill=pdf&graded=true&limit=1":        {"b", "a"},
			"skill=pdf&agent=codex":                nil,
			"skill=pdf&outcome=tool_errors":        {"b"},
			"skill=zip&outcome=pass":               {"c", "b"},
			"outcome=pass":                         {"c", "b", "a"},
			"outcome=fail":                         nil,
			"outcome=tool_errors":                  {"b"},
			"graded=true":                          {"c", "b", "a"},
			"graded=false&limit=1":                 {"e", "d"},
			"agent=codex":                          {"d"},
			"agent=claude-code&limit=1":            {"e", "c", "b", "a"},
			"agent=nobody":                         nil,
			"user=me":                              {"d", "c", "b", "a"},
			"user=" + bob.User.ID:                  {"e"},
			"version=1.0.0":                        nil,
			"since=2026-03-05":                     nil,
			"since=2026-03-04T07:06:07Z":           {"e", "d", "c"},
			"until=2026-03-04T07:06:07Z":           {"b", "a"},
			"since=2026-03-04&until=2026-03-05":    {"e", "d", "c", "b", "a"},
			"skill=pdf&until=2026-03-04T06:00:00Z": {"a"},
		} {
			wantList(t, ada, query, want...)
		}
		wantList(t, bob, "user=me", "e")
		bob.Get("/v1/sessions?user="+ada.User.ID).WantError(http.StatusForbidden, "The sessions of another user need the permission admin")
		ada.Get("/v1/sessions?skill=none").WantError(http.StatusNotFound, "Skill not found")
		wantList(t, w.Org("other"), "")
		w.wantSound()
	})
}

func resolve(t *testing.T, db *store.DB, orgID, name string) (id string) {
	t.Helper()
	err := db.InTx(t.Context(), func(tx *store.Tx) (err error) {
		id, err = skills.Resolve(t.Context(), tx, orgID, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestBadRequests(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		w.ingest(ada, seen("s", 0))
		for query, path := range map[string]string{
			"limit=0": "limit", "limit=201": "limit", "limit=x": "limit", "cursor=%21": "cursor", "cursor=eyJhIjoxfQ": "cursor",
			"cursor=bnVsbA": "cursor", "graded=maybe": "graded", "outcome=good": "outcome", "since=yesterday": "since", "until=2026-13-01": "until",
			"activated=true": "activated",
		} {
			ada.Get("/v1/sessions?"+query).Want(http.StatusBadRequest).WantIssueWith(path, path)
		}
		for query, path := range map[string]string{"limit=0": "limit", "limit=1001": "limit", "cursor=x": "cursor"} {
			ada.Get("/v1/sessions/s?"+query).Want(http.StatusBadRequest).WantIssueWith(path, path)
		}
		ada.Get("/v1/sessions/none").WantError(http.StatusNotFound, "Session not found")
		w.Org("other").Get("/v1/sessions/s").WantError(http.StatusNotFound, "Session not found")
		w.Anonymous().Get("/v1/sessions").Want(http.StatusUnauthorized)
		w.Anonymous().Get("/v1/sessions/s").Want(http.StatusUnauthorized)
		writer := w.Member(ada.Org, access.Member, access.TelemetryWrite)
		writer.Get("/v1/sessions").Want(http.StatusForbidden)
		writer.Get("/v1/sessions/s").Want(http.StatusForbidden)
		viewer := w.Member(ada.Org, access.Viewer)
		wantList(t, viewer, "", "s")
		viewer.Get("/v1/sessions/s").Want(http.StatusOK)
	})
}

// TestSameID: ids are the agents' own, so those of two people may be equal, and
// one of another organisation is not found.
func TestSameID(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		w.ingest(ada, report{events: []sessions.Event{tool("s", "1", 0, true)}})
		w.ingest(bob, report{events: []sessions.Event{tool("s", "1", time.Hour, true), tool("s", "2", time.Hour, true)}})
		for c, want := range map[*apptest.Caller]float64{ada: 1, bob: 2, w.Member(ada.Org, access.Viewer): 2} {
			if got := c.Get("/v1/sessions/s").Want(http.StatusOK).Field("session")["tool_calls"]; got != want {
				t.Errorf("%v tool calls, want %v", got, want)
			}
		}
		wantList(t, ada, "limit=1", "s", "s")
	})
}

// TestStrangeIDs: an id that is not shaped like one is answered as a hash. The session
// can be opened by that and, escaped, by its own id, also by a colleague; and what a name of a tool says is not stored.
func TestStrangeIDs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		strange := []string{"what shall we do?", "../../etc/passwd", strings.Repeat("x", 1000), "ada@example.org", "a/b", "ü"}
		for _, id := range strange {
			e := tool(id, "1", 0, true)
			e.Name = "said: hello world"
			w.ingest(ada, report{events: []sessions.Event{e}, sightings: []sessions.Sighting{{Session: id, Agent: "my agent", At: start}}})
		}
		ids := list(ada, "")
		if len(ids) != 6 {
			t.Fatalf("%d sessions, want 6", len(ids))
		}
		for _, id := range ids {
			d := ada.Get("/v1/sessions/" + id).Want(http.StatusOK)
			if len(id) != 32 || strings.Contains(string(d.Body), "hello") || strings.Contains(string(d.Body), "my agent") {
				t.Errorf("session %s: %s", id, d.Body)
			}
		}
		colleague, stranger := w.Member(ada.Org, access.Member), w.Org("other")
		for _, id := range strange {
			if len(id) > 200 {
				continue
			}
			path := "/v1/sessions/" + url.PathEscape(id)
			for _, c := range []*apptest.Caller{ada, colleague} {
				if got := apptest.Text(c.Get(path).Want(http.StatusOK).Field("session"), "session_id"); !slices.Contains(ids, got) {
					t.Errorf("%q opens %s", id, got)
				}
			}
			stranger.Get(path).Want(http.StatusNotFound)
		}
	})
}

// TestEventPages: the pages of a long session have every event once, in order, and
// an answer stays below 200 kB.
func TestEventPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		var events []sessions.Event
		for i := range 5000 {
			e := tool("s", fmt.Sprint(i), time.Duration(i/3)*time.Second, true)
			e.Name = fmt.Sprint("tool-", i)
			events = append(events, e)
		}
		var requests []costs.Request
		for i := range 100 { // which are stored elsewhere
			requests = append(requests, costs.Request{
				ID: fmt.Sprint("request ", i), Session: "s", At: after(time.Duration(i) * 3 * time.Second), Model: fmt.Sprint("model-", i),
			})
		}
		w.ingest(ada, report{events: events, requests: requests, gradings: []skills.Grading{graded(ada, "s", "pdf", 1)}})
		for _, limit := range []int{1000, 999} {
			var names []string
			var before string
			for cursor := ""; ; {
				page := ada.Get(fmt.Sprintf("/v1/sessions/s?limit=%d%s", limit, cursor)).Want(http.StatusOK)
				if len(page.Body) > 200_000 {
					t.Errorf("%d bytes", len(page.Body))
				}
				for _, e := range apptest.List(t, page.Field("session"), "events") {
					if at := apptest.Text(e, "at"); at < before {
						t.Errorf("%s comes after %s", at, before)
					} else {
						before = at
					}
					names = append(names, apptest.Text(e, "name"))
				}
				next, _ := page.Object()["next_cursor"].(string)
				if next == "" {
					break
				}
				cursor = "&cursor=" + next
			}
			slices.Sort(names)
			if n := len(slices.Compact(names)); n != 5101 {
				t.Errorf("%d events by %d, want 5101", n, limit)
			}
		}
	})
}

// TestTooManyEvents: beyond the limit events are dropped, the session says so, and
// its figures are still those of what is stored.
func TestTooManyEvents(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		var events []sessions.Event
		for i := range sessions.MaxEvents + 10 {
			events = append(events, tool("s", fmt.Sprint(i), time.Duration(i)*time.Second, true))
		}
		w.ingest(ada, report{events: events}, report{events: events[sessions.MaxEvents-10:]},
			report{sightings: seen("s", 0).sightings, observations: []skills.Observation{used(ada, "s", "pdf", true)}})
		s := ada.Get("/v1/sessions/s?limit=1").Want(http.StatusOK).Field("session")
		if s["tool_calls"] != float64(sessions.MaxEvents) || s["truncated"] != true {
			t.Errorf("%v tool calls, truncated %v", s["tool_calls"], s["truncated"])
		}
		if n := w.Count("agent_session_events"); n != sessions.MaxEvents {
			t.Errorf("%d events are stored", n)
		}
		w.wantSound()
	})
}

// TestAbsurdDurations are dropped; the rest of the event is kept.
func TestAbsurdDurations(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		for i, d := range []time.Duration{-1, 1 << 62} {
			e := tool("s", fmt.Sprint(i), 0, true)
			e.Duration = &d
			w.ingest(ada, report{events: []sessions.Event{e}})
		}
		events := apptest.List(t, ada.Get("/v1/sessions/s").Want(http.StatusOK).Field("session"), "events")
		for _, e := range events {
			if e["duration_ms"] != nil {
				t.Errorf("event %v", e)
			}
		}
		if len(events) != 2 {
			t.Errorf("%d events, want 2", len(events))
		}
	})
}

// TestMoves: an observation that a later report gives to another session or skill
// leaves nothing behind, and a session that turns out to have begun earlier is
// listed there.
func TestMoves(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		first := used(ada, "a", "pdf", true)
		moved := first
		moved.Session, moved.SkillName, moved.NormalizedAt = "b", "zip", after(time.Hour)
		w.ingest(ada, seen("a", time.Minute), seen("b", 2*time.Minute), report{observations: []skills.Observation{first}},
			report{observations: []skills.Observation{moved}})
		wantList(t, ada, "skill=pdf")
		wantList(t, ada, "skill=zip&activated=true", "b")
		if n := w.Count("agent_session_events"); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
		w.ingest(ada, seen("b", -time.Hour))
		wantList(t, ada, "skill=zip&until=2026-03-04T05:00:00Z", "b")
		wantList(t, ada, "", "a", "b")
		w.wantSound()
	})
}

// TestMergedSkill: the sessions of a skill follow it into the one that it is merged
// into, and back.
func TestMergedSkill(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		c := &curate.Service{DB: db, Jobs: w.Queue, Skills: w.s.Skills}
		w.ingest(ada, seen("a", 0), seen("b", time.Hour), report{
			observations: []skills.Observation{used(ada, "a", "acme:pdf", true), used(ada, "b", "pdf", true)},
			gradings:     []skills.Grading{graded(ada, "a", "acme:pdf", 0)},
		})
		idOf := func(name string) string {
			k, err := w.s.Skills.Get(t.Context(), ada.Org.ID, name)
			if err != nil {
				t.Fatal(err)
			}
			return k.ID
		}
		from, into := idOf("acme:pdf"), idOf("pdf")
		for _, step := range []struct {
			into, before string
			pdf, failed  []string
		}{
			{into, "", []string{"b", "a"}, []string{"a"}},
			{"", into, []string{"b"}, nil},
		} {
			if err := c.Update(t.Context(), ada.Org.ID, from, curate.Change{MergedInto: &step.into}); err != nil {
				t.Fatal(err)
			}
			if err := c.Move(t.Context(), ada.Org.ID, from, step.before); err != nil {
				t.Fatal(err)
			}
			wantList(t, ada, "skill=pdf&activated=true", step.pdf...)
			wantList(t, ada, "skill=pdf&outcome=fail", step.failed...)
			wantList(t, ada, "outcome=fail", "a")
			if n := w.Count("agent_session_events"); n != 2 {
				t.Errorf("%d events, want 2", n)
			}
			w.wantSound()
		}
		wantList(t, ada, "skill=acme:pdf&outcome=fail", "a")
	})
}

// kept is content that is kept of one session.
type kept struct {
	session string
	texts   map[string]string
	reader  string // the user who may read it
}

func (k kept) Has(_ context.Context, _ string, _ []string) (map[string]bool, error) {
	return map[string]bool{k.session: true}, nil
}

func (k kept) Texts(_ context.Context, c access.Caller, s sessions.Session, events []string) (map[string]string, error) {
	texts := map[string]string{}
	for _, id := range events {
		if text, ok := k.texts[id]; ok && s.ID == k.session && c.UserID == k.reader {
			texts[id] = text
		}
	}
	return texts, nil
}

func (k kept) Explain(_ context.Context, _ access.Caller, s sessions.Session, grades []sessions.Grade) error {
	for i := range grades {
		g := &grades[i]
		g.Judge, g.Reason, g.GradedBy = "claude-x", "half of it", "somebody"
		g.Evidence = []sessions.Evidence{{Expectation: "a", Passed: true, Quotation: "Done."}, {Expectation: "b"}}
	}
	return nil
}

func (kept) Forget(context.Context, *store.Tx, []string) error { return nil }
func (kept) Erase(context.Context, *store.Tx, string) error    { return nil }

// TestHooks: a session shows the words and the grades that others keep.
func TestHooks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		hook := kept{skills.SessionHash(ada.User.ID, "a"), map[string]string{sessions.EventID(sessions.Prompt, "p1"): "Do it"}, ada.User.ID}
		w.s.Content, w.s.Grades = hook, hook
		w.ingest(ada, report{events: []sessions.Event{
			{Session: "a", Kind: sessions.Prompt, ID: "p1", At: after(time.Second)},
			{Session: "a", Kind: sessions.Prompt, ID: "p2", At: after(time.Minute)},
		}}, seen("b", time.Hour), report{gradings: []skills.Grading{graded(ada, "a", "pdf", 0.5)}})
		for _, c := range []*apptest.Caller{ada, bob} {
			var said any
			if c == ada {
				said = "Do it"
			}
			list := c.Get("/v1/sessions").List("sessions")
			if list[0]["has_content"] != false || list[1]["has_content"] != true {
				t.Errorf("list: %v", list)
			}
			session := c.Get("/v1/sessions/a").Want(http.StatusOK).Object()["session"].(map[string]any)
			events := session["events"].([]any)
			if len(events) != 3 || events[0].(map[string]any)["text"] != said || events[1].(map[string]any)["text"] != nil {
				t.Errorf("events: %v", events)
			}
			if diff := cmp.Diff(apptest.Plain(t, []any{object{
				"id": graded(ada, "a", "pdf", 0).ID, "session_id": "a", "skill": "pdf", "pass_rate": 0.5, "basis": "pushed",
				"judge": "claude-x", "reason": "half of it", "graded_by": "somebody", "graded_at": "2026-03-04T05:07:07.000Z", "evidence": []any{
					object{"expectation": "a", "passed": true, "quotation": "Done."},
					object{"expectation": "b", "passed": false, "quotation": nil},
				},
			}}), session["grades"]); diff != "" {
				t.Errorf("grades (-want +got):\n%s", diff)
			}
		}
	})
}

func TestEraseAndExpire(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		bob := w.Member(ada.Org, access.Member)
		fill := func(c *apptest.Caller, id string) {
			w.ingest(c, report{
				events: []sessions.Event{tool(id, "1", 0, true)}, observations: []skills.Observation{used(c, id, "pdf", true)},
			})
		}
		w.ingest(bob, seen("b", -time.Hour))
		fill(ada, "a")
		fill(bob, "b")
		if err := db.InTx(t.Context(), func(tx *store.Tx) error { return w.s.Erase(t.Context(), tx, ada.User.ID) }); err != nil {
			t.Fatal(err)
		}
		wantList(t, ada, "", "b")
		wantList(t, ada, "skill=pdf", "b")
		for table, want := range map[string]int{"agent_sessions": 1, "agent_session_events": 2, "agent_session_skills": 1} {
			if n := w.Count(table); n != want {
				t.Errorf("%s has %d rows, want %d", table, n, want)
			}
		}
		fill(ada, "a") // again, after the erasure
		wantList(t, ada, "skill=pdf", "a", "b")
		w.wantSound()

		for i := range 250 {
			w.ingest(ada, seen(name(i), 0))
		}
		w.Exec(`UPDATE agent_sessions SET reported_at = $1 WHERE session_id <> 'b'`, store.Micros(time.Now().Add(-100*time.Hour)))
		if err := w.s.Expire(t.Context(), time.Now().Add(-90*time.Hour)); err != nil {
			t.Fatal(err)
		}
		wantList(t, ada, "", "b")
		w.wantSound()
	})
}
