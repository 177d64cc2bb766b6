package sse

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Insert numbers events and stores them. The UPDATE locks the run's row
// until the transaction ends, so ids become visible in their order: a reader that
// has seen one event has seen all before it.
func Insert(ctx context.Context, tx *store.Tx, runID string, events []Event) error {
	n := len(events)
	if n == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `UPDATE eval_runs SET last_event = last_event + $2 WHERE id = $1 RETURNING last_event`, runID, n)
	last, err := store.One(rows, err, "Eval run", store.Value[int64])
	if err != nil {
		return err
	}
	ids, names, data := make([]int64, n), make([]string, n), make([]string, n)
	for i, e := range events {
		ids[i], names[i], data[i] = last-int64(n-1-i), e.Name, string(e.Data)
	}
	_, err = store.Bulk{
		Table: "eval_run_events",
		Columns: []store.Column{
			store.Col("run_id", slices.Repeat([]string{runID}, n)), store.Col("id", ids), store.Col("name", names),
			store.Col("data", data),
			store.Col("created_at", slices.Repeat([]int64{store.Micros(store.Now())}, n)),
		},
	}.Insert(ctx, tx)
	return err
}

// After returns up to limit events of a run that follow the one with id after, in
// order.
func After(ctx context.Context, q store.Querier, runID string, after int64, limit int) ([]Event, error) {
	rows, err := q.Query(ctx, `
		SELECT id, name, data FROM eval_run_events WHERE run_id = $1 AND id > $2 ORDER BY id LIMIT $3`, runID, after, limit)
	return store.All(rows, err, func(row store.Row) (e Event, err error) {
		var data string
		err = row.Scan(&e.ID, &e.Name, &data)
		e.Data = json.RawMessage(data)
		return e, err
	})
}
