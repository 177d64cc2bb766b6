package app_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// walkers are the scheduled jobs that go through everything once a day:
// docs/operate.md names them.
var walkers = []string{"quota.recount", "costs.adopt-prices"}

// TestIdleOrganisations counts the statements of all scheduled jobs among a few
// organisations in which nothing happens, and among ten times as many: where
// nothing has changed, nothing is looked at.
func TestIdleOrganisations(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		c := newCollector(t)
		s := start(t, settings(t, append(flags, "--trace-otlp-endpoint", c.URL, "--alert-interval", "1h")...))
		s.addIdle(t, 0, 3)
		few := s.statementsOfSchedules(t, c)
		s.addIdle(t, 3, 30)
		many := s.statementsOfSchedules(t, c)
		if len(few) < 20 {
			t.Fatalf("only %v ran", slices.Sorted(maps.Keys(few)))
		}
		for _, kind := range walkers {
			delete(few, kind)
			delete(many, kind)
		}
		if diff := cmp.Diff(few, many); diff != "" {
			t.Errorf("statements of scheduled jobs (-3 organisations +30 organisations):\n%s", diff)
		}
	})
}

// addIdle makes organisations in which something has happened once: each has a
// skill, an alert and a source whose suggestions were derived.
func (s *service) addIdle(t *testing.T, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		org, err := s.Auth().CreateOrg(t.Context(), fmt.Sprint("idle ", n), access.Team)
		if err != nil {
			t.Fatal(err)
		}
		owner := s.as(t, newKey(t, s.App, org.ID, access.Owner))
		at := time.Now().UTC().Format(time.RFC3339)
		owner.Post("/api/v1/push", fmt.Sprintf(`{"canonical":{"skill_invocations":[{"skill_invocation_id":"%d","session_id":"s","skill_name":"k",`+
			`"occurred_at":%q,"normalized_at":%q,"triggered":true}]}}`, n, at, at)).Want(201)
		owner.Post("/api/v1/alerts", `{"type":"pass_rate_below","threshold":0.1,"channel":"webhook","config":{"webhook_url":"http://127.0.0.1:1/"}}`).Want(201)
		owner.Upload("/api/v1/cloud-sources/upload",
			apptest.Part{Name: "label", Content: []byte("idle")},
			apptest.Part{Name: "skill_id", Content: []byte(owner.Get("/v1/skills/k").Text("skill", "skill_id"))},
			apptest.Part{Name: "file", File: "skill.tar.gz", Content: []byte(apptest.Archive(t, "idle"))}).Want(201)
	}
}

// statementsOfSchedules runs every scheduled job twice and returns how many
// statements each kind needed the second time: the first one does what is new.
func (s *service) statementsOfSchedules(t *testing.T, c *collector) (counts map[string]int) {
	t.Helper()
	var kinds []string
	apptest.Eventually(t, "the schedules", func() bool { kinds = s.scheduled(t); return len(kinds) > 0 })
	for range 2 {
		apptest.Eventually(t, "the end of all jobs", func() bool { return idle(t, s.App) })
		c.forget()
		if _, err := s.DB().Exec(t.Context(), `UPDATE job_schedules SET next_at = 0`); err != nil {
			t.Fatal(err)
		}
		// A span is sent when it has ended, and after those below it.
		apptest.Eventually(t, "the spans of all scheduled jobs", func() bool {
			counts = c.statementsOfJobs()
			return !slices.ContainsFunc(kinds, func(kind string) bool { _, ran := counts[kind]; return !ran })
		})
	}
	maps.DeleteFunc(counts, func(kind string, _ int) bool { return !slices.Contains(kinds, kind) })
	return counts
}

func (s *service) scheduled(t *testing.T) []string {
	t.Helper()
	rows, err := s.DB().Query(t.Context(), `SELECT kind FROM job_schedules`)
	kinds, err := store.All(rows, err, store.Value[string])
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

func (c *collector) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = nil
}

// statementsOfJobs counts the spans of statements in the traces of jobs, by kind.
func (c *collector) statementsOfJobs() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for _, root := range c.spans {
		kind, is := strings.CutPrefix(root.GetName(), "job ")
		if !is {
			continue
		}
		counts[kind] += 0
		for _, span := range c.spans {
			if bytes.Equal(span.GetTraceId(), root.GetTraceId()) && span != root {
				counts[kind]++
			}
		}
	}
	return counts
}
