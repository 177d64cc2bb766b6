package telemetry

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// The stored state of the deduplication.

// lockStates reads and locks the states with the ids. It inserts the zero state
// of unknown ids first, so that there is a row to lock.
func lockStates[T any](ctx context.Context, tx *store.Tx, c access.Caller, ids []string) (map[string]*T, error) {
	states := map[string]*T{}
	if len(ids) == 0 {
		return states, nil
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	_, err := store.Bulk{
		Table: "telemetry_states",
		Columns: []store.Column{
			store.Col("id", ids),
			store.Col("org_id", slices.Repeat([]string{c.OrgID}, len(ids))),
			store.Col("user_id", slices.Repeat([]string{c.UserID}, len(ids))),
			store.Col("state", slices.Repeat([]string{"{}"}, len(ids))),
			store.Col("updated_at", slices.Repeat([]int64{store.Micros(store.Now())}, len(ids))),
		},
		OnConflict: "ON CONFLICT (id) DO NOTHING",
	}.Insert(ctx, tx)
	if err != nil {
		return nil, err
	}
	in, list := tx.Dialect().In("$1", ids)
	rows, err := tx.Query(ctx, `
		SELECT id, state FROM telemetry_states WHERE id`+in+` ORDER BY id`+tx.Dialect().ForUpdate(), list)
	err = store.Each(rows, err, func(row store.Row) error {
		var id, raw string
		if err := row.Scan(&id, &raw); err != nil {
			return err
		}
		states[id] = new(T)
		return json.Unmarshal([]byte(raw), states[id])
	})
	return states, err
}

// updateStates stores states that lockStates has locked.
func updateStates[T any](ctx context.Context, tx *store.Tx, states map[string]*T) error {
	if len(states) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(states))
	raw := make([]string, len(ids))
	for i, id := range ids {
		state, err := json.Marshal(states[id])
		if err != nil {
			return err
		}
		raw[i] = string(state)
	}
	return store.BulkUpdate{
		Table: "telemetry_states",
		Key:   store.Col("id", ids),
		Set: []store.Column{
			store.Col("state", raw),
			store.Col("updated_at", slices.Repeat([]int64{store.Micros(store.Now())}, len(ids))),
		},
	}.Run(ctx, tx)
}
