package signals_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

const (
	overviewPath   = "/api/v1/creator-signals/overview"
	skillPath      = "/api/v1/creator-signals/skills/"
	aggregatesPath = "/api/v1/signals/aggregates"
)

// today is the current day in responses.
func today() string { return time.Now().UTC().Format(time.DateOnly) }

func thisWeek() string {
	year, week := time.Now().UTC().ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, week)
}

func midnight(day string) string { return day + "T00:00:00.000Z" }

func nothing() object {
	return object{
		"missed_categories": []any{}, "grade_distribution": object{"A": 0, "B": 0, "C": 0, "F": 0},
		"invocation_types": object{"explicit": 0, "implicit": 0, "contextual": 0, "missed": 0}, "weekly": []any{},
	}
}

// about adds the fields that all creator-signals responses have.
func (c *client) about(o object) object {
	o["source"], o["creator_id"] = "contribution_signal", c.User.ID
	return o
}

func TestNoSignals(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org(t)
		c.get(overviewPath).want(http.StatusOK).wantBody(c.about(object{
			"total_signals": 0, "total_contributors": 0, "active_skills": 0, "pending_proposals": 0, "skills": []any{},
		}))
		none := c.about(nothing())
		none["skill"] = nil
		c.get(skillPath + "pdf").want(http.StatusOK).wantBody(none)
		c.get(aggregatesPath).want(http.StatusOK).wantBody(object{
			"totals": object{"signals": 0, "skills": 0, "contributors": 0}, "aggregates": []any{},
		})
	})
}

// TestEvents: batches about two skills, one with three contributors and one with
// two.
func TestEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org(t)
		people := []*client{c, w.member(t, c.Org, access.Member), w.member(t, c.Org, access.Member)}
		for n, p := range people {
			for i := range 4 {
				p.post(batch(signal("pdf", "missed_trigger", fmt.Sprint(n, "-", i), float64(i)/4, ""))).want(http.StatusOK)
			}
		}
		for _, p := range people[:2] {
			p.post(batch(signal("csv", "missed_trigger", p.User.ID, 1, ""))).want(http.StatusOK)
		}
		c.republish()
		hidden := object{
			"skill_name": "csv", "signal_count": nil, "contributor_count": nil, "trigger_rate": nil, "miss_rate": nil,
			"actionable": false, "last_signal_at": midnight(today()), "suppressed": true,
		}
		shown := object{
			"skill_name": "pdf", "signal_count": 12, "contributor_count": 3, "trigger_rate": nil, "miss_rate": nil,
			"actionable": true, "last_signal_at": midnight(today()),
		}
		c.get(overviewPath).want(http.StatusOK).wantBody(c.about(object{
			"total_signals": 12, "total_contributors": 3, "active_skills": 2, "pending_proposals": 0,
			"skills": []any{hidden, shown}, "suppressed": true,
		}))
		row := object{
			"skill_name": "pdf", "signal_type": "missed_trigger", "bucket": today(), "signal_count": 12,
			"contributor_count": 3, "avg_confidence": 0.375,
		}
		csv := object{
			"skill_name": "csv", "signal_type": "missed_trigger", "bucket": today(), "signal_count": nil, "contributor_count": nil,
			"avg_confidence": nil, "suppressed": true,
		}
		c.get(aggregatesPath).want(http.StatusOK).wantBody(object{
			"totals": object{"signals": 12, "skills": 2, "contributors": 3, "suppressed": true}, "aggregates": []any{csv, row},
		})
		c.get(aggregatesPath + query("skill_name", "csv")).want(http.StatusOK).wantBody(object{
			"totals": object{"signals": nil, "skills": 1, "contributors": nil, "suppressed": true}, "aggregates": []any{csv},
		})
		row["bucket"] = thisWeek()
		c.get(aggregatesPath + query("skill_name", "pdf", "bucket", "week")).want(http.StatusOK).wantBody(object{
			"totals": object{"signals": 12, "skills": 1, "contributors": 3}, "aggregates": []any{row},
		})
		detail := c.about(nothing())
		detail["skill"] = shown
		detail["weekly"] = []any{object{"week": thisWeek(), "signals": 12, "contributors": 3}}
		c.get(skillPath + "pdf").want(http.StatusOK).wantBody(detail)
		secret := c.about(object{
			"skill": hidden, "missed_categories": []any{}, "grade_distribution": object{"A": nil, "B": nil, "C": nil, "F": nil},
			"invocation_types": object{"explicit": nil, "implicit": nil, "contextual": nil, "missed": nil}, "suppressed": true,
			"weekly": []any{object{"week": thisWeek(), "signals": nil, "contributors": nil, "suppressed": true}},
		})
		c.get(skillPath + "csv").want(http.StatusOK).wantBody(secret)

		other := w.org(t)
		if got := other.get(overviewPath).want(http.StatusOK).object()["active_skills"]; got != 0.0 {
			t.Errorf("another organisation sees %v skills", got)
		}
	})
}

func TestSessions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org(t)
		for n := range 3 {
			cohort := fmt.Sprint("uc_sha256_00000000000", n)
			for _, says := range []object{
				{"triggered": true, "invocation_type": "explicit", "execution_grade": "A"},
				{"triggered": true, "invocation_type": "implicit", "execution_grade": "A"},
				{"triggered": true, "invocation_type": "implicit", "execution_grade": "F"},
				{"triggered": false, "invocation_type": "missed", "query_bucket": "troubleshooting"},
				{"miss_detected": true, "triggered": true, "query_bucket": "troubleshooting"},
			} {
				c.post(sessionBody("a/b", cohort, "2026-W07", says)).want(http.StatusCreated)
			}
			if n == 0 { // only one of them
				c.post(sessionBody("a/b", cohort, "2026-W07", object{"miss_detected": true, "query_bucket": "search"})).
					want(http.StatusCreated)
			}
		}
		c.republish()
		skill := object{
			"skill_name": "a/b", "signal_count": 16, "contributor_count": 3, "trigger_rate": 9.0 / 16, "miss_rate": 7.0 / 16,
			"actionable": true, "last_signal_at": "2026-02-09T00:00:00.000Z",
		}
		c.get(skillPath + "a%2Fb").want(http.StatusOK).wantBody(c.about(object{
			"skill": skill,
			// Showing the six of troubleshooting would reveal the one of search.
			"missed_categories": []any{}, "suppressed": true,
			"grade_distribution": object{"A": 6, "B": 0, "C": 0, "F": 3},
			"invocation_types":   object{"explicit": 3, "implicit": 6, "contextual": 0, "missed": 7},
			"weekly":             []any{object{"week": "2026-W07", "signals": 16, "contributors": 3}},
		}))
		c.get(aggregatesPath).want(http.StatusOK).wantBody(object{
			"totals": object{"signals": 16, "skills": 1, "contributors": 3},
			"aggregates": []any{object{
				"skill_name": "a/b", "signal_type": "skill_session", "bucket": "2026-02-09",
				"signal_count": 16, "contributor_count": 3, "avg_confidence": nil,
			}},
		})
	})
}

// TestForms: events and sessions of the same type share a row.
func TestForms(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org(t)
		for n := range 3 {
			cohort := fmt.Sprint("cohort", n)
			c.post(sessionBody("pdf", cohort, thisWeek(), object{})).want(http.StatusCreated)
			c.post(batch(signal("pdf", "skill_session", cohort, 0.5, cohort))).want(http.StatusOK)
		}
		c.republish()
		c.get(aggregatesPath).want(http.StatusOK).wantBody(object{
			"totals": object{"signals": 6, "skills": 1, "contributors": 3},
			"aggregates": []any{object{
				"skill_name": "pdf", "signal_type": "skill_session", "bucket": today(), "signal_count": 6,
				"contributor_count": nil, "avg_confidence": nil,
			}},
		})
	})
}

func TestAggregatesFilters(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newWorld(t, db).org(t)
		for n := range 3 {
			for _, week := range []string{"2026-W07", "2026-W09"} {
				c.post(sessionBody("pdf", fmt.Sprint("cohort", n), week, object{})).want(http.StatusCreated)
			}
		}
		c.republish()
		for _, test := range []struct {
			query   string
			buckets []any
			people  any
		}{
			{query(), []any{"2026-02-09", "2026-02-23"}, 3.0},
			{query("since", "2026-02-09"), []any{"2026-02-09", "2026-02-23"}, 3.0},
			{query("since", "2026-02-09T23:59:59Z"), []any{"2026-02-09", "2026-02-23"}, 3.0},
			{query("since", "2026-02-10"), []any{"2026-02-23"}, 3.0},
			{query("until", "2026-02-22"), []any{"2026-02-09"}, 3.0},
			{query("until", "2026-02-23T00:00:00+02:00"), []any{"2026-02-09"}, 3.0},
			{query("since", "2026-02-10", "until", "2026-02-22"), []any{}, 0.0},
			{query("since", "2026-02-15", "bucket", "week"), []any{"2026-W07", "2026-W09"}, 3.0},
			{query("until", "2026-02-22", "bucket", "week"), []any{"2026-W07"}, 3.0},
			{query("signal_type", "other"), []any{}, 0.0},
			{query("signal_type", "skill_session", "skill_name", "pdf"), []any{"2026-02-09", "2026-02-23"}, 3.0},
			{query("skill_name", "csv"), []any{}, 0.0},
		} {
			o := c.get(aggregatesPath + test.query).want(http.StatusOK).object()
			buckets := []any{}
			for _, row := range o["aggregates"].([]any) {
				buckets = append(buckets, row.(object)["bucket"])
			}
			if diff := cmp.Diff(test.buckets, buckets); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.query, diff)
			}
			if got := o["totals"].(object)["contributors"]; got != test.people {
				t.Errorf("%s: %v contributors, want %v", test.query, got, test.people)
			}
		}
		c.get(aggregatesPath+query("since", "yesterday", "until", "x")).WantIssues(
			"since", "since must be an RFC 3339 time or a day like 2026-01-02", "until", "until must be an RFC 3339 time or a day like 2026-01-02")
		c.get(aggregatesPath+query("since", "2026-02-03", "until", "2026-02-02")).WantIssues("until", "until must not be before since")
		c.get(aggregatesPath+query("bucket", "month")).WantIssues("bucket", `bucket: expected value to be one of "day, week"`)
	})
}
