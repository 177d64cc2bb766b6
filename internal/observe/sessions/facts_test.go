package sessions_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestFigures: turns and tool calls are those of the events, else those that facts
// report, else unknown; in every order, and repeated.
func TestFigures(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	fact := func(id string, calls, errors *int64) sessions.Event {
		return sessions.NewFact("s", id, start.Add(time.Second), calls, errors)
	}
	prompt := func(kind sessions.Kind, id string) sessions.Event {
		return sessions.Event{Session: "s", Kind: kind, ID: id, At: start}
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for name, test := range map[string]struct {
			events []sessions.Event
			want   object
			failed bool // a call is known to have failed
		}{
			"nothing": {nil, object{"turns": nil, "tool_calls": nil, "tool_errors": nil}, false},
			"facts": {
				[]sessions.Event{fact("1", n(3), n(1)), fact("2", n(4), n(0))},
				object{"turns": nil, "tool_calls": 7, "tool_errors": 1},
				true,
			},
			"a fact that grew": {
				[]sessions.Event{fact("1", n(9), nil), fact("1", n(10), n(2)), fact("1", nil, n(1))},
				object{"turns": nil, "tool_calls": 10, "tool_errors": 2},
				true,
			},
			"calls only": {[]sessions.Event{fact("1", n(3), nil)}, object{"turns": nil, "tool_calls": 3, "tool_errors": nil}, false},
			"no call":    {[]sessions.Event{fact("1", n(0), n(0))}, object{"turns": nil, "tool_calls": 0, "tool_errors": 0}, false},
			"its own too": {
				[]sessions.Event{fact("1", n(3), n(1)), tool("s", "c", 0, true), tool("s", "d", 0, true)},
				object{"turns": nil, "tool_calls": 2, "tool_errors": 0},
				false,
			},
			"prompts without an id": {
				[]sessions.Event{prompt(sessions.UnnamedPrompt, "1"), prompt(sessions.UnnamedPrompt, "2")},
				object{"turns": 2, "tool_calls": nil, "tool_errors": nil},
				false,
			},
			"both": {
				[]sessions.Event{prompt(sessions.UnnamedPrompt, "1"), prompt(sessions.Prompt, "a"), prompt(sessions.UnnamedPrompt, "2")},
				object{"turns": 2, "tool_calls": nil, "tool_errors": nil},
				false,
			},
		} {
			for order, reverse := range []bool{false, true} {
				c := w.Org(name + map[bool]string{true: " backwards"}[reverse]).In(t)
				w.ingest(c, report{sightings: []sessions.Sighting{{Session: "s", At: start}}})
				for range 2 {
					for i := range test.events {
						if reverse {
							i = len(test.events) - 1 - i
						}
						w.ingest(c, report{events: test.events[i : i+1]})
					}
				}
				got := c.Get("/v1/sessions").Want(http.StatusOK).List("sessions")[0]
				for key := range got {
					if _, ok := test.want[key]; !ok {
						delete(got, key)
					}
				}
				if diff := cmp.Diff(apptest.Plain(t, test.want), any(got)); diff != "" {
					t.Errorf("%s, order %d (-want +got):\n%s", name, order, diff)
				}
				if found := list(c, "outcome=tool_errors"); len(found) == 1 != test.failed {
					t.Errorf("%s: %d sessions with tool errors", name, len(found))
				}
				shown := 0
				for _, e := range apptest.List(t, c.Get("/v1/sessions/s").Want(http.StatusOK).Field("session"), "events") {
					if e["kind"] == "fact" || e["kind"] == "unnamed_prompt" {
						t.Errorf("%s: shows %v", name, e)
					}
					if e["kind"] == "prompt" {
						shown++
					}
				}
				if want := map[string]int{"both": 1, "prompts without an id": 2}[name]; shown != want {
					t.Errorf("%s: %d prompts are shown, want %d", name, shown, want)
				}
			}
		}
		w.wantSound()
	})
}
