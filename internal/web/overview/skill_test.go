package overview_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

func TestTenures(t *testing.T) {
	each(t, func(w *world) {
		w.exec(`INSERT INTO registry_currents (id, entry_id, version_id, since) VALUES ('a-c3', 'a-entry', 'a-v1', $1)`, w.micros(-time.Hour))
		w.exec(`UPDATE registry_versions SET rolled_back = $1 WHERE id = 'a-v2'`, true)
		tenure := func(id string, minor int, ago time.Duration, eligible bool) overview.Tenure {
			return overview.Tenure{
				EntryID: "a-entry", VersionID: id, Version: fmt.Sprintf("1.%d.0", minor), Since: w.now.Add(ago), Eligible: eligible,
			}
		}
		all := []overview.Tenure{tenure("a-v1", 0, -9*day, true), tenure("a-v2", 1, -2*day, false), tenure("a-v1", 0, -time.Hour, true)}
		ids := []string{"a-pdf", "b-pdf"} // of which one is another organisation's
		got, err := w.s.Tenures(w.t.Context(), "a", ids, 10)
		check(w.t, err, map[string][]overview.Tenure{"a-pdf": all}, got)
		got, err = w.s.Tenures(w.t.Context(), "a", ids, 2)
		check(w.t, err, map[string][]overview.Tenure{"a-pdf": all[1:]}, got)
		got, err = w.s.Tenures(w.t.Context(), "a", nil, 2)
		check(w.t, err, map[string][]overview.Tenure{}, got)
	})
}

// TestCurrent: the figures of current versions are those of their days in the window.
func TestCurrent(t *testing.T) {
	each(t, func(w *world) {
		today := w.now.Unix() / (24 * 60 * 60)
		for _, id := range []string{"a-pdf", "a-v1", "a-v2", "b-v1"} {
			for i, d := range []int64{today, today - 29, today - 30} {
				w.exec(`INSERT INTO skill_days (subject_id, day, sessions, trigger_sessions, last_sessions, last_trigger_sessions, checks,
						triggers, confidence_sum, confidence_count, graded_sessions, pass_rate_sum)
					VALUES ($1, $2, 10, 0, 0, 0, 0, 0, 0, 0, 10, $3)`, id, d, int64(i+1)*2_000_000_000)
			}
		}
		rate := 0.3 // of 20 sessions, 2 and 4 pass
		want := map[string]overview.Current{"a-pdf": {Version: "1.0.0", PassRate: &rate, Graded: 20}}
		got, err := w.s.CurrentOf(w.t.Context(), "a", []string{"a-pdf", "b-pdf"}, 30)
		check(w.t, err, want, got)
		got, err = w.s.CurrentChanged(w.t.Context(), "a", 30)
		check(w.t, err, map[string]overview.Current{}, got)
		w.exec(`UPDATE registry_entries SET updated_at = $1 WHERE id = 'a-entry'`, w.micros(-day))
		got, err = w.s.CurrentChanged(w.t.Context(), "a", 30)
		check(w.t, err, want, got)
		got, err = w.s.CurrentOf(w.t.Context(), "a", nil, 30)
		check(w.t, err, map[string]overview.Current{}, got)
	})
}

func TestCurrentWorse(t *testing.T) {
	t.Parallel()
	rate := func(f float64) *float64 { return &f }
	for name, c := range map[string]struct {
		current overview.Current
		status  skills.Status
		all     *float64
		want    skills.Status
	}{
		"hidden":         {overview.Current{PassRate: rate(0.43), Graded: 30}, skills.Warning, rate(0.7), skills.Critical},
		"healthy mean":   {overview.Current{PassRate: rate(0.6), Graded: 40}, skills.Healthy, rate(0.9), skills.Warning},
		"by chance":      {overview.Current{PassRate: rate(0.7), Graded: 6}, skills.Healthy, rate(0.9), skills.Healthy},
		"too few":        {overview.Current{PassRate: rate(0), Graded: 4}, skills.Healthy, rate(0.9), skills.Healthy},
		"better":         {overview.Current{PassRate: rate(0.95), Graded: 40}, skills.Critical, rate(0.4), skills.Critical},
		"not graded":     {overview.Current{}, skills.Healthy, rate(0.9), skills.Healthy},
		"nothing at all": {overview.Current{}, skills.Unknown, nil, skills.Unknown},
	} {
		if got := c.current.Worse(c.status, c.all); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestOrgDays(t *testing.T) {
	each(t, func(w *world) {
		today := w.now.Unix() / (24 * 60 * 60)
		w.exec(`INSERT INTO skills (id, org_id, name, created_at) VALUES ('second', 'a', 'second', 0)`)
		w.exec(`INSERT INTO skills (id, org_id, name, created_at, hidden) VALUES ('hidden', 'a', 'hidden', 0, $1)`, true)
		for _, id := range []string{"a-pdf", "second", "hidden", "b-pdf", "a-v1"} {
			for _, d := range []int64{today + 1, today, today - 3} {
				w.exec(`INSERT INTO skill_days (subject_id, day, sessions, trigger_sessions, last_sessions, last_trigger_sessions, checks,
						triggers, confidence_sum, confidence_count, graded_sessions, pass_rate_sum)
					VALUES ($1, $2, 10, 0, 0, 0, 0, 0, 0, 0, 4, 3000000000)`, id, d)
			}
		}
		date := func(ago int) string { return w.now.Add(-time.Duration(ago) * day).Format(time.DateOnly) }
		rate := 0.75
		got, err := w.s.OrgDays(w.t.Context(), "a", 2)
		want := []overview.Day{{Date: date(1)}, {Date: date(0), Sessions: 20, Graded: 8, PassRate: &rate}}
		check(w.t, err, want, got)
		got, err = w.s.Trend(w.t.Context(), "a", 2)
		check(w.t, err, want, got)
		w.exec(`DELETE FROM skill_days`)
		got, err = w.s.Trend(w.t.Context(), "a", 2) // from the cache
		check(w.t, err, want, got)
		got, err = w.s.Trend(w.t.Context(), "b", 2)
		check(w.t, err, []overview.Day{{Date: date(1)}, {Date: date(0)}}, got)
	})
}

func TestRelated(t *testing.T) {
	each(t, func(w *world) {
		for _, org := range []string{"a", "b"} {
			w.exec(`INSERT INTO cloud_sources (id, org_id, label, source_type, skill_id, suggested_at, created_by, created_at)
				VALUES ($1, $2, 'Source', 'upload', $3, 0, $4, 0)`, org+"-source", org, org+"-pdf", org+"-ada")
			for i, reviewed := range []bool{false, true} {
				w.exec(`INSERT INTO source_suggestions (id, org_id, source_id, should_trigger, evidence, provenance, rationale, observed_count,
						confidence, last_observed_at, reviewed)
					VALUES ($1, $2, $3, $4, '', '', '', 1, 1, 0, $5)`, fmt.Sprint(org, i), org, org+"-source", true, reviewed)
			}
			for i, source := range []*string{new(string), nil, nil} {
				if source != nil {
					*source = org + "-source"
				}
				issues := []string{"[]", `[{"path":"cases"}]`, "null"}[i]
				w.exec(`INSERT INTO eval_suites (id, org_id, source_id, name, source_kind, verifier_kind, supports_no_skill, case_count, kind,
						issues, version, created_by, created_at, updated_at, cases)
					VALUES ($1, $2, $3, $1, 'manual', 'llm_judge', $4, 0, 'cases', $5, 1, $6, 0, 0, '[]')`,
					fmt.Sprintf("%s-suite%d", org, i), org, source, true, issues, org+"-ada")
			}
			for i := range 2 {
				w.exec(`INSERT INTO eval_runs (id, org_id, suite_id, status, subject, trials, baseline, seed, total, done, last_event, passed, failed,
						errors, skipped, pass_rate, created_by, created_at, verifier_kind, no_skill, case_count, cases)
					VALUES ($1, $2, $3, 'succeeded', '{}', 1, 'none', 1, 1, 1, 0, 1, 0, 0, 0, $4, $5, $6, 'llm_judge', $7, 1, '[]')`,
					fmt.Sprintf("%s-run%d", org, i), org, org+"-suite0", 0.25+0.5*float64(i), org+"-ada", store.Micros(w.now), false)
			}
			for rule, skill := range map[string]*string{"one": new(string), "all": nil} {
				if skill != nil {
					*skill = org + "-pdf"
				}
				w.exec(`INSERT INTO alert_rules (id, org_id, skill_id, type, threshold, sensitivity, channel, address, enabled, created_by, created_at, updated_at)
					VALUES ($1, $2, $3, 'pass_rate_below', 0.8, 'point', 'webhook', '', $4, $5, 0, 0)`, org+rule, org, skill, rule == "all", org+"-ada")
			}
			w.exec(`INSERT INTO alert_states (rule_id, skill_id, state, since, good_streak, sequence) VALUES ($1, $2, 'firing', $3, 0, 1)`,
				org+"all", org+"-pdf", store.Micros(w.now))
		}
		rate := 0.75
		suite := overview.RelatedSuite{
			ID: "a-suite0", Name: "a-suite0", SourceID: "a-source", Runnable: true,
			Run: &overview.RelatedRun{ID: "a-run1", Status: "succeeded", PassRate: &rate, At: w.now},
		}
		want := overview.Related{
			Sources: []overview.RelatedSource{{ID: "a-source", Label: "Source", Pending: 1}},
			Suites:  []overview.RelatedSuite{suite, {ID: "a-suite1", Name: "a-suite1"}},
			Alerts: []overview.RelatedAlert{
				{ID: "aone", Type: "pass_rate_below", Threshold: 0.8},
				{ID: "aall", Type: "pass_rate_below", Threshold: 0.8, All: true, Enabled: true, Firing: &w.now},
			},
		}
		got, err := w.s.Related(w.t.Context(), "a", "a-pdf", []string{"a-suite1", "b-suite1"})
		check(w.t, err, want, got)
		// Nothing of another organisation, not even by its ids.
		got, err = w.s.Related(w.t.Context(), "a", "b-pdf", []string{"b-suite0"})
		check(w.t, err, overview.Related{Sources: []overview.RelatedSource{}, Suites: []overview.RelatedSuite{}, Alerts: []overview.RelatedAlert{
			{ID: "aall", Type: "pass_rate_below", Threshold: 0.8, All: true, Enabled: true},
		}}, got)
	})
}

// counter counts the queries that pass.
type counter struct {
	store.Querier
	n int
}

func (c *counter) Query(ctx context.Context, sql string, args ...any) (store.Rows, error) {
	c.n++
	return c.Querier.Query(ctx, sql, args...)
}

// TestQueryPlans: what Home and the page of a skill read is found by indexes, in one
// query each, however many skills there are.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		explainer := storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on (skill|registry|cloud|source|eval|alert)`),
			// The second one is a subquery that was found by an index.
			Allow: regexp.MustCompile(`^SCAN (json_each|wanted VIRTUAL|t$|t |\(subquery|cloud_sources USING INDEX cloud_sources_linked)`),
		}
		for _, n := range []int{1, 40} {
			ids := make([]string, n)
			for i := range ids {
				ids[i] = fmt.Sprint("id", i)
			}
			for name, run := range map[string]func(ctx context.Context, q store.Querier) error{
				"current": func(ctx context.Context, q store.Querier) error {
					return second(overview.CurrentVersions(ctx, q, "a", 1, ids))
				},
				"days": func(ctx context.Context, q store.Querier) error { return second(overview.DaysOfSkills(ctx, q, ids, 1)) },
				"all":  func(ctx context.Context, q store.Querier) error { return second(overview.DaysOfOrg(ctx, q, "a", 1)) },
				"tenures": func(ctx context.Context, q store.Querier) error {
					return second(overview.TenuresOfSkills(ctx, q, "a", ids, 5))
				},
				"sources": func(ctx context.Context, q store.Querier) error {
					return second(overview.SourcesOfSkill(ctx, q, "a", "b", 5))
				},
				"suites": func(ctx context.Context, q store.Querier) error {
					return second(overview.SuitesOfSources(ctx, q, "a", ids, ids, 5))
				},
				"alerts": func(ctx context.Context, q store.Querier) error {
					return second(overview.AlertsOfSkill(ctx, q, "a", "b", 5))
				},
				"entry": func(ctx context.Context, q store.Querier) error {
					return second(overview.EntryOfSkill(ctx, q, "a", "b"))
				},
			} {
				c := &counter{Querier: explainer}
				if err := run(t.Context(), c); err != nil && !fault.Is(err, fault.NotFound) {
					t.Errorf("%s: %v", name, err)
				}
				if c.n != 1 {
					t.Errorf("%s of %d skills takes %d queries", name, n, c.n)
				}
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestPlansAmongMany: Home reads the rows of one organisation, where PostgreSQL could
// choose to read those of all, too.
func TestPlansAmongMany(t *testing.T) {
	each(t, func(w *world) {
		storetest.Fill(w.t, w.db, "a", "b")
		// Each skill is in the registry, with a version that is its own subject.
		w.exec(`INSERT INTO registry_entries (id, org_id, name, entry_type, description, visibility, skill_id, current_version_id,
				current_version, current_hash, installation_count, created_by, created_at, updated_at)
			SELECT id, org_id, name, 'skill', '', 'org', id, id, '1.0.0', '', 0, org_id || '-ada', $1, $1 FROM skills WHERE id LIKE '%-filled-%'`,
			w.micros(-day))
		w.exec(`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, size, description, file_manifest,
				source, rolled_back, pushed_by, pushed_at)
			SELECT id, id, '1.0.0', '', '', 0, '', '[]', 'cli', FALSE, created_by, created_at FROM registry_entries WHERE id LIKE '%-filled-%'`)
		w.exec(`INSERT INTO registry_currents (id, entry_id, version_id, since) SELECT id, entry_id, id, pushed_at FROM registry_versions
			WHERE id LIKE '%-filled-%'`)
		w.exec(`ANALYZE`)
		ctx, q := w.t.Context(), storetest.Explainer{
			DB: w.db, T: w.t, Filled: true, Refuse: regexp.MustCompile(`^SCAN |Seq Scan on (skill_|registry_(versions|currents))`),
			Allow: regexp.MustCompile(`^SCAN (json_each|wanted VIRTUAL|t$|t |\(subquery)`),
		}
		ids := make([]string, 8)
		for i := range ids {
			ids[i] = fmt.Sprintf("a-filled-%d", i+1)
		}
		from, since := w.now.Unix()/(24*60*60)-29, w.now.Add(-7*day)
		for name, run := range map[string]func() error{
			"current, changed": func() error { return second(overview.CurrentVersions(ctx, q, "a", from, nil)) },
			"current, some":    func() error { return second(overview.CurrentVersions(ctx, q, "a", from, ids)) },
			"days":             func() error { return second(overview.DaysOfSkills(ctx, q, ids, from)) },
			"all days":         func() error { return second(overview.DaysOfOrg(ctx, q, "a", from)) },
			"tenures":          func() error { return second(overview.TenuresOfSkills(ctx, q, "a", ids, 5)) },
			"firing":           func() error { return second(overview.FiringOfOrg(ctx, q, "a")) },
			"waiting":          func() error { return second(overview.WaitingOfOrg(ctx, q, "a")) },
			"failing":          func() error { return second(overview.FailingOfOrg(ctx, q, "a")) },
			"publishes":        func() error { return second(overview.PublishesSince(ctx, q, "a", since, 100)) },
			"rollbacks":        func() error { return second(overview.RollbacksSince(ctx, q, "a", since, 100)) },
			"alerts":           func() error { return second(overview.AlertsSince(ctx, q, "a", since, 100)) },
			"new skills":       func() error { return second(overview.SkillsSince(ctx, q, "a", since, 100)) },
		} {
			if err := run(); err != nil {
				w.t.Errorf("%s: %v", name, err)
			}
		}
	})
}
