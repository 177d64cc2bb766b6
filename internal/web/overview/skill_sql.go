package overview

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
)

// A tenureRow is a Tenure with the skill that it is of.
type tenureRow struct {
	Tenure
	skillID string
}

// tenuresOfSkills returns the newest tenures of each entry, oldest first. A
// candidate never became current, so it has none.
func tenuresOfSkills(ctx context.Context, q store.Querier, orgID string, skillIDs []string, limit int) ([]tenureRow, error) {
	if len(skillIDs) == 0 {
		return nil, nil
	}
	in, list := q.Dialect().In("$2", skillIDs)
	rows, err := q.Query(ctx, `
		SELECT t.skill_id, t.entry_id, v.id, v.version, t.since, v.state = 'published' AND NOT v.rolled_back
		FROM (
			SELECT e.skill_id, e.id AS entry_id, c.id, c.version_id, c.since,
				ROW_NUMBER() OVER (PARTITION BY c.entry_id ORDER BY c.since DESC, c.id DESC) AS newest
			FROM registry_entries e JOIN registry_currents c ON c.entry_id = e.id
			WHERE e.org_id = $1 AND e.skill_id`+in+` AND e.current_version_id <> ''
		) t JOIN registry_versions v ON v.id = t.version_id
		WHERE t.newest <= $3 ORDER BY t.entry_id, t.since, t.id`, orgID, list, limit)
	return store.All(rows, err, func(row store.Row) (t tenureRow, err error) {
		err = row.Scan(&t.skillID, &t.EntryID, &t.VersionID, &t.Version, store.Time(&t.Since), &t.Eligible)
		return t, err
	})
}

// daysOfOrg sums all listed skills. A session with several skills counts for each.
func daysOfOrg(ctx context.Context, q store.Querier, orgID string, from int64) ([]dayRow, error) {
	rows, err := q.Query(ctx, `
		SELECT d.day, CAST(SUM(d.sessions) AS BIGINT), CAST(SUM(d.graded_sessions) AS BIGINT),
			CAST(SUM(d.pass_rate_sum) AS BIGINT)
		FROM skills k`+q.Dialect().Lookup("skill_days", "d", "d.subject_id = k.id AND d.day >= $2")+`
		WHERE k.org_id = $1 AND `+listed+`
		GROUP BY d.day`, orgID, from)
	return store.All(rows, err, func(row store.Row) (d dayRow, err error) {
		var sum int64
		err = row.Scan(&d.day, &d.Sessions, &d.Graded, &sum)
		d.setRate(sum)
		return d, err
	})
}

// sourcesOfSkill returns the sources of a skill with their pending suggestions.
func sourcesOfSkill(ctx context.Context, q store.Querier, orgID, skillID string, limit int) ([]RelatedSource, error) {
	rows, err := q.Query(ctx, `
		SELECT c.id, c.label, (SELECT COUNT(*) FROM source_suggestions g WHERE g.source_id = c.id AND NOT g.reviewed)
		FROM cloud_sources c WHERE c.org_id = $1 AND c.skill_id = $2 ORDER BY c.id LIMIT $3`, orgID, skillID, limit)
	return store.All(rows, err, func(row store.Row) (s RelatedSource, err error) {
		err = row.Scan(&s.ID, &s.Label, &s.Pending)
		return s, err
	})
}

// suitesOfSources returns suites with their newest run. A suite has no issues if the
// list of them, which is JSON, is empty.
func suitesOfSources(ctx context.Context, q store.Querier, orgID string, sourceIDs, suiteIDs []string,
	limit int,
) ([]RelatedSuite, error) {
	of, sources := q.Dialect().In("$2", sourceIDs)
	in, ids := q.Dialect().In("$3", suiteIDs)
	rows, err := q.Query(ctx, `
		SELECT s.id, s.name, COALESCE(s.source_id, ''), s.issues IN ('[]', 'null'), r.id, r.status, r.pass_rate, r.created_at
		FROM eval_suites s LEFT JOIN eval_runs r ON r.id = (
			SELECT eval_runs.id FROM eval_runs WHERE eval_runs.suite_id = s.id`+catalogue.Ordinary+`
				ORDER BY eval_runs.id DESC LIMIT 1)
		WHERE s.org_id = $1 AND (s.source_id`+of+` OR s.id`+in+`)
		ORDER BY s.id LIMIT $4`, orgID, sources, ids, limit)
	return store.All(rows, err, func(row store.Row) (s RelatedSuite, err error) {
		var id, status *string
		var run RelatedRun
		var at *time.Time
		err = row.Scan(&s.ID, &s.Name, &s.SourceID, &s.Runnable, &id, &status, &run.PassRate, store.NullTime(&at))
		if err == nil && id != nil {
			run.ID, run.Status, run.At = *id, *status, *at
			s.Run = &run
		}
		return s, err
	})
}

// alertsOfSkill has the alerts on the skill first, then those on all skills.
func alertsOfSkill(ctx context.Context, q store.Querier, orgID, skillID string, limit int) ([]RelatedAlert, error) {
	rows, err := q.Query(ctx, `
		SELECT r.id, r.type, r.threshold, r.skill_id IS NULL, r.enabled, s.since
		FROM alert_rules r LEFT JOIN alert_states s ON s.rule_id = r.id AND s.skill_id = $2 AND s.state = 'firing'
		WHERE r.org_id = $1 AND (r.skill_id = $2 OR r.skill_id IS NULL)
		ORDER BY CASE WHEN r.skill_id IS NULL THEN 1 ELSE 0 END, r.id LIMIT $3`, orgID, skillID, limit)
	return store.All(rows, err, func(row store.Row) (a RelatedAlert, err error) {
		err = row.Scan(&a.ID, &a.Type, &a.Threshold, &a.All, &a.Enabled, store.NullTime(&a.Firing))
		return a, err
	})
}
