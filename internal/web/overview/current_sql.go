package overview

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// currentVersions sums the graded sessions of current versions since a day: of these
// skills, or, if they are nil, of those whose entry changed since then. A skill may have
// two entries; the first one counts, as for Entry.
func currentVersions(ctx context.Context, q store.Querier, orgID string, from int64, skillIDs []string) (map[string]Current,
	error,
) {
	which, arg := `AND e.updated_at >= $3`, any(store.Micros(time.Unix(from*secondsPerDay, 0)))
	if skillIDs != nil {
		var in string
		in, arg = q.Dialect().In("$3", skillIDs)
		which = `AND e.skill_id` + in
	}
	rows, err := q.Query(ctx, store.SumQuery{
		Keys: "e.id, e.skill_id, e.current_version", From: "registry_entries AS e",
		Where: `e.org_id = $1 AND e.skill_id IS NOT NULL AND e.current_version_id <> '' ` + which,
		Rows:  "skill_days AS d", On: "d.subject_id = e.current_version_id AND d.day >= $2",
		Columns: []string{"SUM(d.graded_sessions)", "SUM(d.pass_rate_sum)"},
	}.In(q.Dialect())+` ORDER BY e.id`, orgID, from, arg)
	all := map[string]Current{}
	err = store.Each(rows, err, func(row store.Row) error {
		var entryID, skillID string
		var c Current
		var sum int64
		if err := row.Scan(&entryID, &skillID, &c.Version, &c.Graded, &sum); err != nil {
			return err
		}
		if c.Graded > 0 {
			rate := float64(sum) * billionth / float64(c.Graded)
			c.PassRate = &rate
		}
		// Rows are in the order of the entries.
		if _, known := all[skillID]; !known {
			all[skillID] = c
		}
		return nil
	})
	return all, err
}
