package sessions_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

type object = apptest.Object

// world is the service with those that it needs.
type world struct {
	*apptest.World
	s *sessions.Service
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{World: apptest.NewWorld(t, db, apptest.Options{})}
	counts := &skills.Service{DB: db, Window: 30, Versions: registry.History{}}
	entries := &registry.Service{DB: db, Blobs: w.Blobs, Jobs: w.Queue, Skills: counts, Log: w.Log}
	w.s = &sessions.Service{DB: db, Skills: counts, Costs: &costs.Service{DB: db, Jobs: w.Queue}, Registry: entries}
	counts.OnAttributed = w.s
	w.s.Mount(w.API)
	return w
}

// A report is what telemetry makes of one request.
type report struct {
	sightings    []sessions.Sighting
	events       []sessions.Event
	requests     []costs.Request
	observations []skills.Observation
	gradings     []skills.Grading
}

// ingest does what telemetry does with a report of the caller.
func (w *world) ingest(c *apptest.Caller, reports ...report) {
	w.T.Helper()
	for _, r := range reports {
		err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) error {
			err := w.s.Skills.Observe(w.T.Context(), tx, skills.Report{
				OrgID: c.Org.ID, UserID: c.User.ID, Observations: r.observations, Gradings: r.gradings,
			}, func(changes skills.Changes) error {
				err := w.s.Ingest(w.T.Context(), tx, sessions.Report{
					OrgID: c.Org.ID, UserID: c.User.ID, Sightings: r.sightings, Events: r.events, Skills: changes,
				})
				if err != nil {
					return err
				}
				return w.s.Costs.Ingest(w.T.Context(), tx, costs.Report{OrgID: c.Org.ID, UserID: c.User.ID, Requests: r.requests})
			})
			return err
		})
		if err != nil {
			w.T.Fatal(err)
		}
	}
}

// wantSound fails if a figure is not that of a recount.
func (w *world) wantSound() {
	w.T.Helper()
	findings, err := w.s.Check(w.T.Context(), w.DB)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, f := range findings {
		if f.Status != invariants.Good {
			w.T.Errorf("%s: %s", f.Check, f.Message)
		}
	}
}

// start is when the sessions of the tests begin, unless they say otherwise.
var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

func ptr[T any](v T) *T { return &v }

// seen is the sighting of a session at the time start plus d.
func seen(session string, d time.Duration) report {
	return report{sightings: []sessions.Sighting{{Session: session, Agent: "claude-code", At: after(d)}}}
}

// outcome is an outcome of a session.
func outcome(session, id, name string, d time.Duration, passed bool) sessions.Event {
	e, err := sessions.NewOutcome(session, id, name, after(d), &passed)
	if err != nil {
		panic(err)
	}
	return e
}

// tool is a tool call in a session.
func tool(session, id string, d time.Duration, ok bool) sessions.Event {
	return sessions.Event{
		Session: session, Kind: sessions.Tool, ID: id, At: after(d), Name: "Bash", Duration: ptr(1500 * time.Millisecond), OK: &ok,
	}
}

// used is that a session considered a skill, and activated it or not.
func used(c *apptest.Caller, session, skill string, triggered bool) skills.Observation {
	return skills.Observation{
		ID: skills.ID(c.Org.ID, c.User.ID, "test", session+" "+skill), SkillName: skill, Session: session, Triggered: triggered,
		At: after(time.Second), NormalizedAt: after(time.Second),
	}
}

// offered is that a skill was on offer in a session.
func offered(c *apptest.Caller, session, skill string) skills.Observation {
	o := used(c, session, skill, false)
	o.ID, o.Offered = skills.ID(c.Org.ID, c.User.ID, "offer", session+" "+skill), true
	return o
}

// at moves an observation to the time start plus d.
func at(o skills.Observation, d time.Duration) skills.Observation {
	o.At = after(d)
	return o
}

func graded(c *apptest.Caller, session, skill string, rate float64) skills.Grading {
	return skills.Grading{
		ID: skills.ID(c.Org.ID, c.User.ID, "grading", session+" "+skill), SkillName: skill, Session: session, PassRate: &rate,
		At: after(time.Minute),
	}
}

// list returns the ids of the sessions on all pages of a list.
func list(c *apptest.Caller, query string) (ids []string) {
	c.T.Helper()
	cursor := ""
	for {
		page := c.Get("/v1/sessions?" + query + cursor).Want(http.StatusOK)
		for _, s := range page.List("sessions") {
			ids = append(ids, apptest.Text(s, "session_id"))
		}
		next, _ := page.Object()["next_cursor"].(string)
		if next == "" {
			return ids
		}
		cursor = "&cursor=" + next
	}
}

func wantList(t *testing.T, c *apptest.Caller, query string, want ...string) {
	t.Helper()
	if got := list(c, query); !slices.Equal(got, want) {
		t.Errorf("GET /v1/sessions?%s: %v, want %v", query, got, want)
	}
}

func name(i int) string { return fmt.Sprintf("session-%d", i) }
