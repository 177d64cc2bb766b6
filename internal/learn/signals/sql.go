package signals

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// insertSignals stores signals with distinct source keys, deduplicated by
// (organisation, source key), and returns the new ones. If they are assumed to be all
// new and one is not, it may fail with a duplicate. The assumption makes the insert much faster on
// PostgreSQL, see store.Bulk; the caller tries again without it.
func insertSignals(ctx context.Context, tx *store.Tx, orgID string, signals []Signal, assumeNew bool) ([]Signal, error) {
	keys, err := store.Bulk{
		Table: "signals",
		Columns: []store.Column{
			store.Col("org_id", slices.Repeat([]string{orgID}, len(signals))),
			store.Col("source_key", each(signals, func(s Signal) string { return s.SourceKey })),
			store.Col("skill_name", each(signals, func(s Signal) string { return s.SkillName })),
			store.Col("signal_type", each(signals, func(s Signal) string { return s.Type })),
			store.Col("contributor", each(signals, func(s Signal) string { return s.Contributor })),
			store.Col("confidence", each(signals, func(s Signal) *int64 { return s.Confidence })),
			store.Col("day", each(signals, func(s Signal) int64 { return s.Day })),
			store.Col("session", each(signals, sessionText)),
		},
		OnConflict: "ON CONFLICT (org_id, source_key) DO NOTHING", Returning: "source_key", New: assumeNew,
	}.InsertReturning(ctx, tx)
	if err != nil || len(keys) == len(signals) {
		return signals, err
	}
	known := make(map[string]bool, len(keys))
	for _, key := range keys {
		known[key] = true
	}
	return slices.DeleteFunc(slices.Clone(signals), func(s Signal) bool { return !known[s.SourceKey] }), nil
}

func sessionText(s Signal) *string {
	if s.Session == nil {
		return nil
	}
	raw, err := json.Marshal(s.Session)
	if err != nil {
		panic(err) // strings always marshal
	}
	text := string(raw)
	return &text
}

// A membership says that a contributor is counted in a cell. It is a row of
// signal_contributors, so that a cell counts distinct contributors exactly. A row is only an id: it
// tells nothing without the pseudonym that it's computed from.
type membership struct {
	place       place
	contributor string
}

// memberships returns those of the tally that are not known to be stored, by the
// ids of their rows.
func (t tally) memberships(known func(id string) bool) map[string]membership {
	all := map[string]membership{}
	for p, c := range t.sums {
		for contributor := range c.people {
			if id := hash(c.id, contributor); !known(id) {
				all[id] = membership{p, contributor}
			}
		}
	}
	return all
}

// insertMemberships stores memberships and returns the contributors that are new
// in each cell. The insert tells who is new by what it returns, so no read is needed before.
func insertMemberships(ctx context.Context, tx *store.Tx, all map[string]membership) (map[place][]string, error) {
	fresh := map[place][]string{}
	if len(all) == 0 {
		return fresh, nil
	}
	ids, err := store.Bulk{
		Table:      "signal_contributors",
		Columns:    []store.Column{store.Col("id", slices.Sorted(maps.Keys(all)))},
		OnConflict: "ON CONFLICT (id) DO NOTHING", Returning: "id",
	}.InsertReturning(ctx, tx)
	for _, id := range ids {
		m := all[id]
		fresh[m.place] = append(fresh[m.place], m.contributor)
	}
	return fresh, err
}

// incrementCells adds the tally to the cells (an upsert). A cell of fewer than k
// contributors also keeps their list. All increments are relative, so concurrent transactions add
// up.
func incrementCells(ctx context.Context, tx *store.Tx, t tally, added map[string]membership, k int) error {
	fresh, err := insertMemberships(ctx, tx, added)
	if err != nil {
		return err
	}
	ids := make(map[string]place, len(t.sums))
	for p, c := range t.sums {
		ids[c.id] = p
	}
	keys := slices.Sorted(maps.Keys(ids)) // one lock order prevents deadlocks
	text := func(of func(place) string) []string {
		return each(keys, func(id string) string { return of(ids[id]) })
	}
	number := func(of func(place) int64) []int64 {
		return each(keys, func(id string) int64 { return of(ids[id]) })
	}
	_, err = store.Bulk{
		Table: "signal_cells",
		Columns: []store.Column{
			store.Col("id", keys),
			store.Col("org_id", slices.Repeat([]string{t.orgID}, len(keys))),
			store.Col("level", text(func(p place) string { return string(p.level) })),
			store.Col("skill_name", text(func(p place) string { return p.skill })),
			store.Col("form", text(func(p place) string { return string(p.form) })),
			store.Col("signal_type", text(func(p place) string { return p.kind })),
			store.Col("class", text(func(p place) string { return p.class })),
			store.Col("signals", number(func(p place) int64 { return t.sums[p].signals })),
			store.Col("contributors", number(func(p place) int64 { return int64(len(fresh[p])) })),
			store.Col("few", text(func(p place) string { return fewOf(fresh[p], k) })),
			store.Col("confidence_sum", number(func(p place) int64 { return t.sums[p].confidenceSum })),
			store.Col("last_day", number(func(p place) int64 { return t.sums[p].lastDay })),
			store.Col("since", text(func(p place) string { return sinceOf(t.sums[p].people, k) })),
		},
		OnConflict: `ON CONFLICT (id) DO UPDATE SET
			signals = signal_cells.signals + excluded.signals,
			contributors = signal_cells.contributors + excluded.contributors,
			few = CASE WHEN signal_cells.contributors + excluded.contributors < ` + strconv.Itoa(k) + `
				THEN signal_cells.few || excluded.few ELSE '' END,
			confidence_sum = signal_cells.confidence_sum + excluded.confidence_sum,
			since = ` + mergeSince("signal_cells", k) + `,
			last_day = ` + tx.Dialect().Greatest("signal_cells.last_day", "excluded.last_day"),
	}.Insert(ctx, tx)
	return err
}

// fewOf returns the list of contributors that a cell keeps, "" from k on. Its only use is to find
// out whether several small cells have k people together.
func fewOf(contributors []string, k int) string {
	if len(contributors) >= k {
		return ""
	}
	list := ""
	for _, c := range contributors {
		list += c + " "
	}
	return list
}

const cellColumns = `level, skill_name, form, signal_type, class, published_signals, published_contributors, published_few,
	published_confidence_sum, published_last_day, revealed, carried`

func scanCell(row store.Row) (c *cell, err error) {
	c = &cell{}
	var few, carried string
	var revealed int
	err = row.Scan(&c.level, &c.skill, &c.form, &c.kind, &c.class, &c.signals, &c.contributors, &few,
		&c.confidenceSum, &c.lastDay,
		&revealed, &carried)
	c.few, c.carried, c.revealed = strings.Fields(few), strings.Fields(carried), revealed == 1
	return c, err
}

// cellsOf reads the published figures of cells of some levels, of one skill or, if that
// is "", of all. Cells that were never published have no figures.
func cellsOf(ctx context.Context, q store.Querier, orgID, skill string, levels ...level) ([]*cell, error) {
	in, list := q.Dialect().In("$2", each(levels, func(l level) string { return string(l) }))
	condition, args := "", []any{orgID, list}
	if skill != "" {
		condition, args = " AND skill_name = $3", append(args, skill)
	}
	rows, err := q.Query(ctx, `
		SELECT `+cellColumns+` FROM signal_cells
		WHERE org_id = $1 AND level`+in+` AND published_signals IS NOT NULL`+condition, args...)
	return store.All(rows, err, scanCell)
}

// each maps a function over a slice.
func each[T, V any](all []T, of func(T) V) []V {
	values := make([]V, len(all))
	for i, v := range all {
		values[i] = of(v)
	}
	return values
}
