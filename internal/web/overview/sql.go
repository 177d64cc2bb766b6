package overview

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A dayRow is a row of skill_days of a skill or a version, whichever was asked for.
type dayRow struct {
	Day
	skillID string
	day     int64
}

// billionth is the unit of the rates in skill_days, which are integers.
const billionth = 1e-9

// daysOfSkills returns the days with a row, in no order; the others had no session.
func daysOfSkills(ctx context.Context, q store.Querier, skillIDs []string, from int64) ([]dayRow, error) {
	if len(skillIDs) == 0 {
		return nil, nil
	}
	wanted, list := q.Dialect().List("$1", skillIDs)
	rows, err := q.Query(ctx, `
		SELECT d.subject_id, d.day, d.sessions, d.graded_sessions, d.pass_rate_sum
		FROM `+wanted+q.Dialect().Lookup("skill_days", "d", "d.subject_id = wanted.value AND d.day >= $2"), list, from)
	return store.All(rows, err, func(row store.Row) (d dayRow, err error) {
		var sum int64
		err = row.Scan(&d.skillID, &d.day, &d.Sessions, &d.Graded, &sum)
		d.setRate(sum)
		return d, err
	})
}

// setRate sets the pass rate from the sum of those of the graded sessions.
func (d *Day) setRate(sum int64) {
	if d.Graded > 0 {
		rate := float64(sum) * billionth / float64(d.Graded)
		d.PassRate = &rate
	}
}

// listed is the condition that a skill k is shown: see skills.Standing.
const listed = `k.confirmed AND NOT k.hidden AND k.merged_into IS NULL`

type skillName struct{ id, name string }

// skillNames also returns hidden and merged skills: a link to one must have a name.
func skillNames(ctx context.Context, q store.Querier, orgID string, ids []string) ([]skillName, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	in, list := q.Dialect().In("$2", ids)
	rows, err := q.Query(ctx, `SELECT id, name FROM skills WHERE org_id = $1 AND id`+in, orgID, list)
	return store.All(rows, err, func(row store.Row) (n skillName, err error) {
		err = row.Scan(&n.id, &n.name)
		return n, err
	})
}

// firingOfOrg has what fires now, with the pass rate of the event that began it.
func firingOfOrg(ctx context.Context, q store.Querier, orgID string) ([]Firing, error) {
	rows, err := q.Query(ctx, `
		SELECT r.id, k.id, k.name, r.type, r.threshold, s.since, e.pass_rate
		FROM alert_rules r`+q.Dialect().Lookup("alert_states", "s", "s.rule_id = r.id AND s.state = 'firing'")+
		q.Dialect().Lookup("skills", "k", "k.id = s.skill_id")+q.Dialect().LeftLookup("alert_events", "e",
		"e.id = s.episode_id")+`
		WHERE r.org_id = $1 AND r.enabled AND `+listed+`
		ORDER BY s.since, r.id, k.id`, orgID)
	return store.All(rows, err, func(row store.Row) (f Firing, err error) {
		err = row.Scan(&f.RuleID, &f.SkillID, &f.SkillName, &f.Type, &f.Threshold, store.Time(&f.Since), &f.PassRate)
		return f, err
	})
}

// waitingOfOrg counts the suggestions without a decision, by source.
func waitingOfOrg(ctx context.Context, q store.Querier, orgID string) ([]Waiting, error) {
	rows, err := q.Query(ctx, `
		SELECT c.id, c.label, COUNT(*)
		FROM cloud_sources c`+q.Dialect().Lookup("source_suggestions", "g", "g.source_id = c.id AND NOT g.reviewed")+`
		WHERE c.org_id = $1
		GROUP BY c.id, c.label ORDER BY COUNT(*) DESC, c.id`, orgID)
	return store.All(rows, err, func(row store.Row) (w Waiting, err error) {
		err = row.Scan(&w.SourceID, &w.Label, &w.Suggestions)
		return w, err
	})
}

// failingOfOrg returns connections whose last attempt failed. An older failure that
// was followed by a success is of no interest.
func failingOfOrg(ctx context.Context, q store.Querier, orgID string) ([]Failing, error) {
	rows, err := q.Query(ctx, `
		SELECT c.id, c.entry_name, c.repo_full_name, a.ref_name, a.message, a.attempted_at
		FROM repohost_connections c JOIN repohost_attempts a ON a.id = (
			SELECT l.id FROM repohost_attempts l WHERE l.connection_id = c.id
			ORDER BY l.attempted_at DESC, l.id DESC LIMIT 1)
		WHERE c.org_id = $1 AND a.status IN ('failed', 'refused')
		ORDER BY a.attempted_at DESC, c.id`, orgID)
	return store.All(rows, err, func(row store.Row) (f Failing, err error) {
		err = row.Scan(&f.ConnectionID, &f.EntryName, &f.Repo, &f.Ref, &f.Message, store.Time(&f.AttemptedAt))
		return f, err
	})
}

// A changeQuery returns one kind of changes, newest first; Changes merges them. All but
// skillsSince stop at the limit.
type changeQuery func(ctx context.Context, q store.Querier, orgID string, since time.Time, limit int) ([]Change, error)

// publishesSince leaves out candidates, which are no change yet for those who
// install.
func publishesSince(ctx context.Context, q store.Querier, orgID string, since time.Time, limit int) ([]Change, error) {
	rows, err := q.Query(ctx, `
		SELECT v.pushed_at, COALESCE(e.skill_id, ''), e.id, e.name, v.version
		FROM registry_entries e`+q.Dialect().Lookup("registry_versions", "v", "v.entry_id = e.id AND v.pushed_at >= $2")+`
		WHERE e.org_id = $1 AND v.state <> 'candidate'
		ORDER BY v.pushed_at DESC, v.id DESC LIMIT $3`, orgID, store.Micros(since), limit)
	return store.All(rows, err, func(row store.Row) (Change, error) {
		c := Change{Kind: "published"}
		err := row.Scan(store.Time(&c.At), &c.SkillID, &c.EntryID, &c.Name, &c.Version)
		return c, err
	})
}

// rollbacksSince has the reason as detail, which may name an alert: see
// format.Reason.
func rollbacksSince(ctx context.Context, q store.Querier, orgID string, since time.Time, limit int) ([]Change, error) {
	rows, err := q.Query(ctx, `
		SELECT b.rolled_back_at, COALESCE(e.skill_id, ''), e.id, e.name, b.to_version, COALESCE(b.reason, '')
		FROM registry_entries e`+q.Dialect().Lookup("registry_rollbacks", "b", "b.entry_id = e.id")+`
		WHERE e.org_id = $1 AND b.rolled_back_at >= $2
		ORDER BY b.rolled_back_at DESC, b.id DESC LIMIT $3`, orgID, store.Micros(since), limit)
	return store.All(rows, err, func(row store.Row) (Change, error) {
		c := Change{Kind: "rolled_back"}
		err := row.Scan(store.Time(&c.At), &c.SkillID, &c.EntryID, &c.Name, &c.Version, &c.Detail)
		return c, err
	})
}

// alertsSince leaves out reminders. Ids of events are in the order of time.
func alertsSince(ctx context.Context, q store.Querier, orgID string, since time.Time, limit int) ([]Change, error) {
	rows, err := q.Query(ctx, `
		SELECT occurred_at, transition, skill_id, skill_name, pass_rate, threshold, COALESCE(note, '')
		FROM alert_events WHERE org_id = $1 AND occurred_at >= $2 AND transition <> 'reminder'
		ORDER BY id DESC LIMIT $3`, orgID, store.Micros(since), limit)
	return store.All(rows, err, func(row store.Row) (c Change, err error) {
		err = row.Scan(store.Time(&c.At), &c.Kind, &c.SkillID, &c.Name, &c.PassRate, &c.Threshold, &c.Detail)
		return c, err
	})
}

// skillsSince returns skills that were confirmed since: created_at is set then.
func skillsSince(ctx context.Context, q store.Querier, orgID string, since time.Time, _ int) ([]Change, error) {
	rows, err := q.Query(ctx, `
		SELECT k.created_at, k.id, k.name FROM skills k WHERE k.org_id = $1 AND k.created_at >= $2 AND `+listed+`
		ORDER BY k.created_at DESC, k.id DESC`, orgID, store.Micros(since))
	return store.All(rows, err, func(row store.Row) (Change, error) {
		c := Change{Kind: "new"}
		err := row.Scan(store.Time(&c.At), &c.SkillID, &c.Name)
		return c, err
	})
}

// entryOfSkill returns the first of several entries, so that pages agree on one.
func entryOfSkill(ctx context.Context, q store.Querier, orgID, skillID string) (Entry, error) {
	rows, err := q.Query(ctx, `
		SELECT id, name, description, current_version, installation_count FROM registry_entries
		WHERE org_id = $1 AND skill_id = $2 AND current_version_id <> '' ORDER BY id LIMIT 1`, orgID, skillID)
	return store.One(rows, err, "Entry", func(row store.Row) (e Entry, err error) {
		err = row.Scan(&e.ID, &e.Name, &e.Description, &e.CurrentVersion, &e.Installations)
		return e, err
	})
}

// LastDecisions returns the newest decision of a user since a time, with those that
// were made together with it, which have the same time.
func (s *Service) LastDecisions(ctx context.Context, orgID, userID string, since time.Time) ([]Decision, error) {
	rows, err := s.DB.Query(ctx, `
		SELECT source_id, suggestion_id, query, should_trigger, review_status, applied_suite_id, reviewed_at FROM source_reviews
		WHERE org_id = $1 AND reviewed_by = $2 AND reviewed_at = (
			SELECT MAX(reviewed_at) FROM source_reviews WHERE org_id = $1 AND reviewed_by = $2 AND reviewed_at >= $3)
		ORDER BY id DESC`, orgID, userID, store.Micros(since))
	return store.All(rows, err, func(row store.Row) (d Decision, err error) {
		err = row.Scan(&d.SourceID, &d.SuggestionID, &d.Query, &d.ShouldTrigger, &d.Status, &d.SuiteID, store.Time(&d.At))
		return d, err
	})
}

// existingIDs returns the ids of things that have a page. Ids are UUIDs, so one
// list can hold those of all tables.
func existingIDs(ctx context.Context, q store.Querier, orgID string, ids []string) ([]string, error) {
	in, list := q.Dialect().In("$2", ids)
	of := `WHERE org_id = $1 AND id` + in
	rows, err := q.Query(ctx, `
		SELECT id FROM skills `+of+`
		UNION ALL SELECT id FROM registry_entries `+of+`
		UNION ALL SELECT id FROM alert_rules `+of+`
		UNION ALL SELECT id FROM cloud_sources `+of+`
		UNION ALL SELECT id FROM eval_suites `+of+`
		UNION ALL SELECT id FROM eval_runs `+of+`
		UNION ALL SELECT id FROM improve_runs `+of+`
		UNION ALL SELECT id FROM gates `+of+`
		UNION ALL SELECT id FROM proposals `+of+`
		UNION ALL SELECT id FROM repohost_connections `+of, orgID, list)
	return store.All(rows, err, store.Value[string])
}
