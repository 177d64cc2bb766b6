package costs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// dayColumns are the counters of cost_days in the order of dayCount.counts.
var dayColumns = []string{
	"requests", "reported", "unpriced", "micros", "input", "output", "cache_read", "cache_write", "uses", "use_requests",
	"sessions", "session_requests", "graded_sessions", "graded_micros", "pass_rate_sum",
}

// counts returns pointers, for reading and writing alike, in the order of
// dayColumns.
func (d *dayCount) counts() []*int64 {
	return []*int64{
		&d.requests, &d.reported, &d.unpriced, &d.micros, &d.input, &d.output, &d.cacheRead, &d.cacheWrite, &d.uses,
		&d.useRequests, &d.sessions, &d.sessionRequests, &d.graded, &d.gradedMicros, &d.passRateSum,
	}
}

// The increments are added by upserts. Their keys are sorted so that concurrent
// reports lock in one order.

func incrementDays(ctx context.Context, tx *store.Tx, changes map[dayKey]*dayCount) error {
	keys := slices.SortedFunc(maps.Keys(changes), func(a, b dayKey) int {
		return cmp.Or(strings.Compare(a.subject, b.subject), cmp.Compare(a.day, b.day))
	})
	// What cancelled out would lock a row for nothing.
	keys = slices.DeleteFunc(keys, func(k dayKey) bool { return *changes[k] == dayCount{} })
	columns := []store.Column{
		store.Col("subject_id", columnOf(keys, func(k dayKey) string { return k.subject })),
		store.Col("day", columnOf(keys, func(k dayKey) int64 { return k.day })),
	}
	for i, name := range dayColumns {
		columns = append(columns, store.Col(name, columnOf(keys, func(k dayKey) int64 { return *changes[k].counts()[i] })))
	}
	return increment(ctx, tx, len(keys), store.Bulk{Table: "cost_days", Columns: columns}, "subject_id, day", dayColumns)
}

// incrementBuckets leaves rows whose uses fell to zero: they add nothing to a
// histogram.
func incrementBuckets(ctx context.Context, tx *store.Tx, changes map[bucketKey]*bucketCount) error {
	keys := slices.SortedFunc(maps.Keys(changes), func(a, b bucketKey) int {
		return cmp.Or(strings.Compare(a.subject, b.subject), cmp.Compare(a.day, b.day), cmp.Compare(a.bucket, b.bucket))
	})
	keys = slices.DeleteFunc(keys, func(k bucketKey) bool { return *changes[k] == bucketCount{} })
	return increment(ctx, tx, len(keys), store.Bulk{
		Table: "cost_buckets",
		Columns: []store.Column{
			store.Col("subject_id", columnOf(keys, func(k bucketKey) string { return k.subject })),
			store.Col("day", columnOf(keys, func(k bucketKey) int64 { return k.day })),
			store.Col("bucket", columnOf(keys, func(k bucketKey) int64 { return k.bucket })),
			store.Col("uses", columnOf(keys, func(k bucketKey) int64 { return changes[k].uses })),
			store.Col("micros", columnOf(keys, func(k bucketKey) int64 { return changes[k].micros })),
		},
	}, "subject_id, day, bucket", []string{"uses", "micros"})
}

// incrementModels has no subject: models are counted for the organisation only.
func incrementModels(ctx context.Context, tx *store.Tx, orgID string, changes map[modelKey]int64) error {
	keys := slices.SortedFunc(maps.Keys(changes), func(a, b modelKey) int {
		return cmp.Or(cmp.Compare(a.day, b.day), strings.Compare(a.model, b.model))
	})
	keys = slices.DeleteFunc(keys, func(k modelKey) bool { return changes[k] == 0 })
	return increment(ctx, tx, len(keys), store.Bulk{
		Table: "cost_models",
		Columns: []store.Column{
			store.Col("org_id", columnOf(keys, func(modelKey) string { return orgID })),
			store.Col("day", columnOf(keys, func(k modelKey) int64 { return k.day })),
			store.Col("model", columnOf(keys, func(k modelKey) string { return k.model })),
			store.Col("requests", columnOf(keys, func(k modelKey) int64 { return changes[k] })),
		},
	}, "org_id, day, model", []string{"requests"})
}

// increment inserts rows, or adds their counters to those that are there.
func increment(ctx context.Context, tx *store.Tx, rows int, b store.Bulk, key string, counters []string) error {
	if rows == 0 {
		return nil
	}
	sums := columnOf(counters, func(name string) string { return name + " = " + b.Table + "." + name + " + excluded." + name })
	b.OnConflict = "ON CONFLICT (" + key + ") DO UPDATE SET " + strings.Join(sums, ", ")
	_, err := b.Insert(ctx, tx)
	return err
}
