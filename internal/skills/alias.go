package skills

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/store"
)

// resolveAliases finds for every observation of the report the id that its
// reports have agreed on, and remembers the new aliases. Two producers that
// tell of one tool call so come to one observation, in whatever order. The
// ids that became aliases are in retired: an observation may stand under them.
func (in *intake) resolveAliases(ctx context.Context) (retired []string, err error) {
	var names []string
	for _, o := range in.report.Observations {
		names = append(append(names, o.ID), o.Aliases...)
		if o.Claim != "" {
			names = append(names, o.Claim)
		}
	}
	known, err := aliasesOf(ctx, in.tx, names)
	if err != nil {
		return nil, err
	}
	in.canonical = map[string]string{}
	fresh := map[string]string{}
	learn := func(name, id string) bool {
		if _, ok := known[name]; ok {
			return false
		}
		known[name], fresh[name] = id, id
		return true
	}
	for _, o := range in.report.Observations {
		aliases := o.Aliases
		if o.Claim != "" && !learn(o.Claim, o.ID) && known[o.Claim] != o.ID {
			aliases = nil
		}
		id := o.ID
		for _, name := range append([]string{o.ID}, aliases...) {
			if found, ok := known[name]; ok {
				id = found
				break
			}
		}
		in.canonical[o.ID] = id
		for _, name := range aliases {
			learn(name, id)
		}
		if id != o.ID && learn(o.ID, id) {
			retired = append(retired, o.ID)
		}
	}
	return retired, insertAliases(ctx, in.tx, fresh)
}

func aliasesOf(ctx context.Context, q store.Querier, names []string) (map[string]string, error) {
	known := map[string]string{}
	if len(names) == 0 {
		return known, nil
	}
	slices.Sort(names)
	in, list := q.Dialect().In("$1", slices.Compact(names))
	rows, err := q.Query(ctx, `SELECT alias, observation_id FROM skill_aliases WHERE alias`+in, list)
	_, err = store.All(rows, err, func(row store.Row) (struct{}, error) {
		var alias, id string
		err := row.Scan(&alias, &id)
		known[alias] = id
		return struct{}{}, err
	})
	return known, err
}

func insertAliases(ctx context.Context, tx *store.Tx, aliases map[string]string) error {
	if len(aliases) == 0 {
		return nil
	}
	var names, ids []string
	for name, id := range aliases {
		names, ids = append(names, name), append(ids, id)
	}
	_, err := store.Bulk{
		Table:      "skill_aliases",
		Columns:    []store.Column{store.Col("alias", names), store.Col("observation_id", ids)},
		OnConflict: "ON CONFLICT (alias) DO NOTHING",
	}.Insert(ctx, tx)
	return err
}
