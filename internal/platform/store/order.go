package store

import "strings"

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
