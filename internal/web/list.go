package web

import (
	"maps"
	"net/url"
	"strconv"
	"strings"
)

// A pager links the pages of a list and keeps its filters.
type pager struct {
	Page, Pages, Total int
	Previous, Next     string // "" where there is none
}

func newPager(f frame, total, perPage int) pager {
	p := pager{Page: pageOf(f.query), Total: total, Pages: max(1, (total+perPage-1)/perPage)}
	if p.Page > 1 {
		p.Previous = f.with("page", strconv.Itoa(min(p.Page-1, p.Pages)))
	}
	if p.Page < p.Pages {
		p.Next = f.with("page", strconv.Itoa(p.Page+1))
	}
	return p
}

// with returns the page's URL with one query parameter changed.
func (f frame) with(name, value string) string {
	query := maps.Clone(f.query)
	if query == nil {
		query = url.Values{}
	}
	query.Set(name, value)
	return f.Path + "?" + query.Encode()
}

// Query returns a query parameter of the page.
func (f frame) Query(name string) string { return f.query.Get(name) }

// A sortLink is the heading of a column that the list can be sorted by.
type sortLink struct {
	Label, URL string
	Order      string // ascending, descending or none, for aria-sort
}

// newSortLink links to the list sorted by a field, or in reverse if it already is.
// A field with a leading - starts with the largest, e.g. "-pass_rate".
func newSortLink(f frame, field, label string) sortLink {
	name := strings.TrimPrefix(field, "-")
	link := sortLink{Label: label, Order: "none"}
	now, next := f.query.Get("sort"), field
	switch now {
	case name:
		link.Order = "ascending"
	case "-" + name:
		link.Order = "descending"
	}
	if now == field {
		next = "-" + name
		if strings.HasPrefix(field, "-") {
			next = name
		}
	}
	query := maps.Clone(f.query)
	query.Del("page") // in another order it has other rows
	query.Set("sort", next)
	link.URL = f.Path + "?" + query.Encode()
	return link
}
