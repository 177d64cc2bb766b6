package web

import (
	"net/http"
)

// newPager returns the links to the pages of a list.
func newPager(f frame, total, perPage int) Pager { return f.list.Pager(total, perPage) }

// newHead returns the heading of a column that the list can be sorted by.
func newHead(f frame, field, label string) Head { return f.list.Head(field, label) }

// Query returns a query parameter of the page.
func (f frame) Query(name string) string { return f.list.Query.Get(name) }

// Asked reports whether the list of the page was searched.
func (f frame) Asked() bool { return f.list.Search() != "" }

// Sort returns the order of the list; "" is its default.
func (f frame) Sort() string { return f.list.Sort() }

// An exportLink is the link to a list as a CSV file.
type exportLink struct {
	URL  string
	Most int // maximum number of rows in the file, if the list may have more; else 0
}

// newExport links to the file at path with the filters of the page. total is 0 for
// lists that do not count their rows.
func newExport(f frame, path string, total int) exportLink {
	link := exportLink{URL: f.list.Export(path)}
	if total == 0 || total > maxCSVRows {
		link.Most = maxCSVRows
	}
	return link
}

// file returns a list as a CSV file.
func file(v *visit, f csvFile) (answer, error) {
	send, err := f.Write(v.Context())
	return raw(send), err
}

// offset is the index of the first row of the requested page.
func (v *visit) offset(perPage int) int { return v.list.Offset(perPage) }

// sized is implemented by the views of lists, which know how many rows there are.
type sized interface{ Listed() Size }

// within redirects a request beyond the last page of a list to the last one: rows may
// have been deleted since the link was made.
func (v *visit) within(a answer) answer {
	if view, ok := a.data.(sized); ok && v.Method == http.MethodGet {
		if last := v.list.Beyond(view.Listed()); last != "" {
			return redirect(last, "")
		}
	}
	return a
}
