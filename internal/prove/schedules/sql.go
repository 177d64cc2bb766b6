package schedules

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
)

const scheduleColumns = `id, org_id, suite_id, subject, skill, agent, trials, baseline, every, cron, max_micros, max_month_micros,
	enabled, paused_reason, next_at, last_run_id, reference, building, created_by, created_at, updated_at`

func scanSchedule(row store.Row) (s Schedule, err error) {
	var subject string
	var agent, reference, building *string
	err = row.Scan(&s.ID, &s.OrgID, &s.SuiteID, &subject, &s.Skill, &agent, &s.Trials, &s.Baseline, &s.Every, &s.Cron,
		&s.MaxMicros, &s.MaxMonthMicros, &s.Enabled, &s.PausedReason, store.NullTime(&s.NextAt), &s.LastRunID,
		&reference, &building, &s.CreatedBy, store.Time(&s.CreatedAt), store.Time(&s.UpdatedAt))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(subject), &s.Subject); err != nil {
		return s, err
	}
	for _, field := range []struct {
		text *string
		into any
	}{{agent, &s.Agent}, {reference, &s.Reference}, {building, &s.building}} {
		if field.text == nil {
			continue
		}
		if err := json.Unmarshal([]byte(*field.text), field.into); err != nil {
			return s, err
		}
	}
	return s, nil
}

// column encodes a value for a column of JSON; nil is NULL.
func column[T any](value *T) (encoded *string, err error) {
	if value == nil {
		return encoded, nil
	}
	raw, err := json.Marshal(value)
	text := string(raw)
	return &text, err
}

// scheduleByID returns a schedule. lock is "" or a locking clause.
func scheduleByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Schedule, error) {
	rows, err := q.Query(ctx, `SELECT `+scheduleColumns+` FROM eval_schedules WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "Schedule", scanSchedule)
}

// schedulesBefore returns a page of schedules, newest first: ids sort by time.
func schedulesBefore(ctx context.Context, q store.Querier, orgID string, f Filter) ([]Schedule, error) {
	rows, err := q.Query(ctx, `
		SELECT `+scheduleColumns+` FROM eval_schedules
		WHERE org_id = $1 AND ($2 = '' OR id < $2) AND ($3 = '' OR suite_id = $3) AND ($4 = '' OR entry_id = $4)
		ORDER BY id DESC LIMIT $5`, orgID, f.Before, f.SuiteID, f.EntryID, f.Limit)
	return store.All(rows, err, scanSchedule)
}

func insertSchedule(ctx context.Context, tx *store.Tx, s Schedule) error {
	subject, err := column(&s.Subject)
	if err != nil {
		return err
	}
	var entryID *string
	if s.Subject.EntryID != "" {
		entryID = &s.Subject.EntryID
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO eval_schedules (id, org_id, suite_id, subject, entry_id, skill, trials, baseline, every, cron, enabled,
			created_by, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		s.ID, s.OrgID, s.SuiteID, *subject, entryID, s.Skill, s.Trials, s.Baseline, s.Every, s.Cron, s.Enabled,
		s.CreatedBy, store.Micros(s.CreatedAt), store.Micros(s.UpdatedAt))
	if err != nil {
		return err
	}
	return updateSchedule(ctx, tx, s)
}

// updateSchedule writes what changes; the row is locked.
func updateSchedule(ctx context.Context, tx *store.Tx, s Schedule) error {
	agent, err := column(s.Agent)
	if err != nil {
		return err
	}
	reference, err := column(s.Reference)
	if err != nil {
		return err
	}
	building, err := column(s.building)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE eval_schedules SET suite_id = $2, skill = $3, agent = $4, trials = $5, baseline = $6, every = $7, cron = $8,
			max_micros = $9, max_month_micros = $10, enabled = $11, paused_reason = $12, next_at = $13, last_run_id = $14,
			reference = $15, building = $16, updated_at = $17
		WHERE id = $1`,
		s.ID, s.SuiteID, s.Skill, agent, s.Trials, s.Baseline, s.Every, s.Cron, s.MaxMicros, s.MaxMonthMicros, s.Enabled,
		s.PausedReason, store.NullMicros(s.NextAt), s.LastRunID, reference, building, store.Micros(s.UpdatedAt))
	return err
}

// deleteSchedule removes a schedule with the rows of its runs.
func deleteSchedule(ctx context.Context, tx *store.Tx, id string) error {
	_, err := tx.Exec(ctx, `DELETE FROM eval_schedules WHERE id = $1`, id)
	return err
}

// A dueSchedule is one whose time has come.
type dueSchedule struct{ orgID, id string }

// schedulesDue returns schedules that are due, of so many that wait longest.
func schedulesDue(ctx context.Context, q store.Querier, now time.Time, limit int) ([]dueSchedule, error) {
	rows, err := q.Query(ctx, `
		SELECT org_id, id FROM eval_schedules WHERE next_at <= $1 ORDER BY next_at LIMIT $2`, store.Micros(now), limit)
	return store.All(rows, err, func(row store.Row) (d dueSchedule, err error) {
		err = row.Scan(&d.orgID, &d.id)
		return d, err
	})
}

// spentSince returns what the runs of schedules cost that began since a time. A run that is under
// way counts with its limit.
func spentSince(ctx context.Context, q store.Querier, since time.Time, ids ...string) (map[string]int64, error) {
	spent := map[string]int64{}
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `
		SELECT schedule_id, CAST(SUM(COALESCE(cost_micros, CASE WHEN status = 'running' THEN max_micros END, 0)) AS BIGINT)
		FROM eval_schedule_runs WHERE schedule_id`+in+` AND started_at >= $2 GROUP BY schedule_id`, list, store.Micros(since))
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var micros int64
		err := row.Scan(&id, &micros)
		spent[id] = micros
		return err
	})
	return spent, err
}

const runColumns = `run_id, schedule_id, due_at, status, max_micros, passed, decided, counts, reference, cost_micros,
	conditions, changed, started_at, ended_at`

func scanRun(row store.Row) (r Run, err error) {
	var conditions, changed string
	err = row.Scan(&r.ID, &r.ScheduleID, store.NullTime(&r.DueAt), &r.Status, &r.MaxMicros, &r.Passed, &r.Decided, &r.Counts,
		&r.Reference, &r.CostMicros, &conditions, &changed, store.Time(&r.StartedAt), store.NullTime(&r.EndedAt))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(conditions), &r.Conditions); err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(changed), &r.Changed)
}

// insertRun stores a run that was started. There is one row for each due time.
func insertRun(ctx context.Context, tx *store.Tx, r Run) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO eval_schedule_runs (run_id, schedule_id, due_at, status, max_micros, started_at)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		r.ID, r.ScheduleID, store.NullMicros(r.DueAt), r.Status, r.MaxMicros, store.Micros(r.StartedAt))
	return err
}

// updateRun stores how a run ended.
func updateRun(ctx context.Context, tx *store.Tx, r Run) error {
	conditions, err := column(&r.Conditions)
	if err != nil {
		return err
	}
	changed, err := column(&r.Changed)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE eval_schedule_runs SET status = $2, passed = $3, decided = $4, counts = $5, reference = $6, cost_micros = $7,
			conditions = $8, changed = $9, ended_at = $10
		WHERE run_id = $1`,
		r.ID, r.Status, r.Passed, r.Decided, r.Counts, r.Reference, r.CostMicros, *conditions, *changed,
		store.NullMicros(r.EndedAt))
	return err
}

// runByID is for runs that end, whose organisation is known already.
func runByID(ctx context.Context, q store.Querier, id string) (Run, error) {
	rows, err := q.Query(ctx, `SELECT `+runColumns+` FROM eval_schedule_runs WHERE run_id = $1`, id)
	return store.One(rows, err, "Run", scanRun)
}

// runsOf returns the newest runs of a schedule, newest first.
func runsOf(ctx context.Context, q store.Querier, scheduleID string, limit int) ([]Run, error) {
	rows, err := q.Query(ctx, `
		SELECT `+runColumns+` FROM eval_schedule_runs WHERE schedule_id = $1 ORDER BY run_id DESC LIMIT $2`, scheduleID, limit)
	return store.All(rows, err, scanRun)
}

// runningOf returns the ids of the runs that are not recorded yet.
func runningOf(ctx context.Context, q store.Querier, scheduleID string) ([]string, error) {
	rows, err := q.Query(ctx, `
		SELECT run_id FROM eval_schedule_runs WHERE schedule_id = $1 AND status = $2 ORDER BY run_id`, scheduleID, runs.Running)
	return store.All(rows, err, store.Value[string])
}

// lastConditions returns those of the run that was recorded last; nil before the first.
func lastConditions(ctx context.Context, q store.Querier, scheduleID string) (last Conditions, err error) {
	rows, err := q.Query(ctx, `
		SELECT conditions FROM eval_schedule_runs WHERE schedule_id = $1 AND conditions <> '[]'
		ORDER BY run_id DESC LIMIT 1`, scheduleID)
	err = store.Each(rows, err, func(row store.Row) error {
		var raw string
		if err := row.Scan(&raw); err != nil {
			return err
		}
		return json.Unmarshal([]byte(raw), &last)
	})
	return last, err
}

// Check finds schedules whose time has come without a run.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "schedules", []invariants.Rule{{
		Broken: `SELECT COUNT(*), COALESCE(MIN(id), '') FROM eval_schedules WHERE next_at < $1`,
		Args:   []any{store.Micros(store.Now().Add(-time.Hour))},
		Wrong:  "schedules that are due for more than an hour",
		Do:     "see that a process runs jobs: the log names what fails", Mild: true,
	}})
}
