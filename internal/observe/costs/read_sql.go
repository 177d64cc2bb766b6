package costs

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// sumsOfDays are the sums of dayColumns.
func sumsOfDays() string {
	return strings.Join(columnOf(dayColumns, func(name string) string { return "CAST(SUM(" + name + ") AS BIGINT)" }), ", ")
}

func (d *dayCount) targets(before ...any) []any {
	for _, n := range d.counts() {
		before = append(before, n)
	}
	return before
}

// daySums sums the counters of subjects from a day on.
func daySums(ctx context.Context, q store.Querier, subjects []string, since int64) (map[string]dayCount, error) {
	in, list := q.Dialect().In("$1", subjects)
	rows, err := q.Query(ctx, `
		SELECT subject_id, `+sumsOfDays()+` FROM cost_days WHERE subject_id`+in+` AND day >= $2 GROUP BY subject_id`, list, since)
	sums := map[string]dayCount{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var d dayCount
		err := row.Scan(d.targets(&id)...)
		sums[id] = d
		return err
	})
	return sums, err
}

// skillSum is the costs of a skill in a window.
type skillSum struct {
	id, name string
	dayCount
}

// skillSums sums the counters of the organisation's skills that have requests from
// a day on, by name.
func skillSums(ctx context.Context, q store.Querier, orgID string, since int64) (all []skillSum, err error) {
	names, err := skills.AllNames(ctx, q, orgID)
	if err != nil {
		return nil, err
	}
	sums, err := daySums(ctx, q, slices.Collect(maps.Keys(names)), since)
	for id, d := range sums {
		if d.requests > 0 {
			all = append(all, skillSum{id, names[id], d})
		}
	}
	slices.SortFunc(all, func(a, b skillSum) int { return strings.Compare(a.name, b.name) })
	return all, err
}

// histogramsOf returns the histograms of subjects from a day on.
func histogramsOf(ctx context.Context, q store.Querier, subjects []string, since int64) (map[string]histogram, error) {
	in, list := q.Dialect().In("$1", subjects)
	rows, err := q.Query(ctx, `
		SELECT subject_id, CAST(SUM(uses) AS BIGINT), CAST(SUM(micros) AS BIGINT) FROM cost_buckets
		WHERE subject_id`+in+` AND day >= $2 GROUP BY subject_id, bucket HAVING SUM(uses) > 0 ORDER BY bucket`, list, since)
	all := map[string]histogram{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id string
		var b bucketCount
		err := row.Scan(&id, &b.uses, &b.micros)
		all[id] = append(all[id], b)
		return err
	})
	return all, err
}

// modelsByUse returns the models of an organisation from a day on, the one with
// the most requests first.
func modelsByUse(ctx context.Context, q store.Querier, orgID string, since int64) ([]ModelCount, error) {
	rows, err := q.Query(ctx, `
		SELECT model, CAST(SUM(requests) AS BIGINT) FROM cost_models WHERE org_id = $1 AND day >= $2
		GROUP BY model HAVING SUM(requests) > 0
		ORDER BY SUM(requests) DESC, model LIMIT 100`, orgID, since)
	return store.All(rows, err, func(row store.Row) (m ModelCount, err error) {
		err = row.Scan(&m.Model, &m.Requests)
		return m, err
	})
}

// sumsByDay returns the requests of a subject from a day on, by day.
func sumsByDay(ctx context.Context, q store.Querier, subject string, since int64) (map[int64]dayCount, error) {
	rows, err := q.Query(ctx, `
		SELECT day, requests, unpriced, micros FROM cost_days WHERE subject_id = $1 AND day >= $2`, subject, since)
	days := map[int64]dayCount{}
	err = store.Each(rows, err, func(row store.Row) error {
		var day int64
		var d dayCount
		err := row.Scan(&day, &d.requests, &d.unpriced, &d.micros)
		days[day] = d
		return err
	})
	return days, err
}
