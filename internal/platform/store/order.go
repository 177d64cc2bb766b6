package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Sorting is the fields that a list can be sorted by, and the SQL of each, e.g.
// {"name": "lower(e.name)", "updated_at": "e.updated_at"}. It is a whitelist: a sort field
// comes from the address of a page and never gets into the text of a query.
type Sorting map[string]string

// By returns the ORDER BY clause of a field, descending with a leading -. Missing values
// come last in both directions. The rest, e.g. "id DESC", is the order among equals, and
// all of it without a field or with one that is unknown.
func (s Sorting) By(field, rest string) string {
	name, descending := strings.CutPrefix(field, "-")
	expression, ok := s[name]
	if !ok {
		return " ORDER BY " + rest
	}
	direction := ""
	if descending {
		direction = " DESC"
	}
	return " ORDER BY (" + expression + ") IS NULL, (" + expression + ")" + direction + ", " + rest
}

// A Page is which rows of a list to read, and in which order.
type Page struct {
	Sort          string // a field of the list's Sorting, with a leading - for descending; "" for its own order
	Limit, Offset int
}

// A List is what is read in pages. The statements for a page and for the number of all share
// From, so that they agree.
type List[T any] struct {
	Columns string
	From    string  // with its condition, e.g. "FROM teams t WHERE t.org_id = $1"
	Sorts   Sorting // what a page may be sorted by
	Order   string  // of a page that names none, and among equals, e.g. "t.slug"
	Scan    func(Row) (T, error)
}

// Count returns the number of all items. The arguments are those of From.
func (l List[T]) Count(ctx context.Context, q Querier, args ...any) (int, error) {
	return Count(ctx, q, l.From, args...)
}

// Page reads a page and the number of all items. The arguments are those of From.
func (l List[T]) Page(ctx context.Context, q Querier, p Page, args ...any) ([]T, int, error) {
	total, err := l.Count(ctx, q, args...)
	if err != nil {
		return nil, 0, err
	}
	limit := fmt.Sprintf(" LIMIT $%d OFFSET $%d", len(args)+1, len(args)+2)
	rows, err := q.Query(ctx, "SELECT "+l.Columns+" "+l.From+l.Sorts.By(p.Sort, l.Order)+limit,
		append(slices.Clip(args), p.Limit, p.Offset)...)
	all, err := All(rows, err, l.Scan)
	return all, total, err
}

// Count returns the number of rows that from selects, e.g. "FROM teams WHERE org_id = $1".
func Count(ctx context.Context, q Querier, from string, args ...any) (int, error) {
	rows, err := q.Query(ctx, "SELECT COUNT(*) "+from, args...)
	return One(rows, err, "Count", Value[int])
}
