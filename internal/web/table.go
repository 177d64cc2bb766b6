package web

// All lists are sorted, searched and divided into pages in the same way. The address
// says how, so that a link or a bookmark shows the same rows.

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A tableRequest is the part of a page's address that its list depends on.
type tableRequest struct {
	Path  string
	Query url.Values
	// Sorts are the fields that the list can be sorted by. The first is its order without a
	// choice. One with a leading - begins with the largest, e.g. "-created_at".
	Sorts []string
}

// maxPage keeps offsets within the integers of both databases.
const maxPage = 1_000_000

// Page is the requested page, from 1; 1 if the address has none, or nonsense.
func (r tableRequest) Page() int {
	n, err := strconv.Atoi(r.Query.Get("page"))
	if err != nil || n < 1 {
		return 1
	}
	return min(n, maxPage)
}

// Offset is where the requested page begins.
func (r tableRequest) Offset(perPage int) int { return (r.Page() - 1) * perPage }

// Search is the text to search for, or "".
func (r tableRequest) Search() string { return strings.TrimSpace(r.Query.Get("q")) }

// Sort is the order that was asked for, e.g. "-created_at"; "" for the list's own, also if
// it was asked for in its name: the database has an index for that one.
func (r tableRequest) Sort() string {
	asked := r.Query.Get("sort")
	if len(r.Sorts) == 0 || asked == r.Sorts[0] || !slices.ContainsFunc(r.Sorts, func(s string) bool {
		return strings.TrimPrefix(s, "-") == strings.TrimPrefix(asked, "-")
	}) {
		return ""
	}
	return asked
}

// Order is the order of the list: the one that was asked for, or its own.
func (r tableRequest) Order() string {
	if sort := r.Sort(); sort != "" || len(r.Sorts) == 0 {
		return sort
	}
	return r.Sorts[0]
}

// with returns the page's URL with one query parameter changed.
func (r tableRequest) with(name, value string) string {
	query := maps.Clone(r.Query)
	if query == nil {
		query = url.Values{}
	}
	query.Set(name, value)
	if name == "sort" {
		query.Del("page") // in another order it has other rows
	}
	return r.Path + "?" + query.Encode()
}

// A Head is the heading of a column that the list can be sorted by.
type Head struct {
	Label, URL string
	Order      string // ascending, descending or none, for aria-sort
}

// Head links to the list sorted by a field, or in reverse if it already is. A field with a
// leading - starts with the largest.
func (r tableRequest) Head(field, label string) Head {
	name := strings.TrimPrefix(field, "-")
	h := Head{Label: label, Order: "none"}
	now, next := r.Order(), field
	switch now {
	case name:
		h.Order = "ascending"
	case "-" + name:
		h.Order = "descending"
	}
	if now == field {
		next = reverse(field)
	}
	h.URL = r.with("sort", next)
	return h
}

func reverse(field string) string {
	if name, ok := strings.CutPrefix(field, "-"); ok {
		return name
	}
	return "-" + field
}

// A Size is how many rows a list has, and a page of it. Views embed it, for pages beyond
// the last.
type Size struct{ Total, PerPage int }

// Pages is the number of pages, at least 1.
func (s Size) Pages() int { return max(1, (s.Total+s.PerPage-1)/max(1, s.PerPage)) }

// Beyond returns the URL of the last page if a later one was requested, else "".
func (r tableRequest) Beyond(s Size) string {
	if s.Total == 0 || r.Page() <= s.Pages() {
		return ""
	}
	return r.with("page", strconv.Itoa(s.Pages()))
}

// A Pager links the pages of a list, and keeps its filters.
type Pager struct {
	Page, Pages     int
	From, To, Total int    // the rows of the page, from 1
	Previous, Next  string // "" where there is none
}

// Pager returns the links to the pages before and after.
func (r tableRequest) Pager(total, perPage int) Pager {
	s := Size{total, perPage}
	p := Pager{Page: r.Page(), Pages: s.Pages(), Total: total}
	p.From, p.To = min(r.Offset(perPage)+1, total), min(r.Offset(perPage)+perPage, total)
	if p.Page > 1 {
		p.Previous = r.with("page", strconv.Itoa(min(p.Page-1, p.Pages)))
	}
	if p.Page < p.Pages {
		p.Next = r.with("page", strconv.Itoa(p.Page+1))
	}
	return p
}

// Export returns the URL of the list as a file at path, with the same filters and order.
func (r tableRequest) Export(path string) string {
	query := maps.Clone(r.Query)
	for _, name := range []string{"page", "cursor"} {
		query.Del(name)
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// A rowOrder compares two rows by a field.
type rowOrder[T any] func(a, b T) int

// sortRows sorts the rows of a list that is small and read whole, in the order of the request;
// without one, rows stay as they are. Equal rows keep their order.
func sortRows[T any](r tableRequest, rows []T, by map[string]rowOrder[T]) {
	field := r.Sort()
	name, descending := strings.CutPrefix(field, "-")
	compare, ok := by[name]
	if !ok {
		return
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		if descending {
			return compare(b, a)
		}
		return compare(a, b)
	})
}

// cutRows returns the rows of the requested page.
func cutRows[T any](r tableRequest, rows []T, perPage int) []T {
	from := min(r.Offset(perPage), len(rows))
	return rows[from:min(from+perPage, len(rows))]
}

// orderBy compares rows by a value.
func orderBy[T any, V cmp.Ordered](value func(T) V) rowOrder[T] {
	return func(a, b T) int { return cmp.Compare(value(a), value(b)) }
}

// orderByText compares rows by a text, without regard to case.
func orderByText[T any](value func(T) string) rowOrder[T] {
	return orderBy(func(row T) string { return strings.ToLower(value(row)) })
}

// Matches reports whether the search text, if there is one, is in one of the texts,
// without regard to case.
func (r tableRequest) Matches(texts ...string) bool {
	q := strings.ToLower(r.Search())
	return q == "" || slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), q) })
}

// Listed is the size itself, which a view that embeds it has, too.
func (s Size) Listed() Size { return s }

// Rows is the requested page, for a list that a database sorts.
func (r tableRequest) Rows(perPage int) store.Page {
	return store.Page{Sort: r.Sort(), Limit: perPage, Offset: r.Offset(perPage)}
}
