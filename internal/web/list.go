package web

import (
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/web/export"
	"github.com/whetstone-dev/whetstone/internal/web/listing"
)

func newPager(f frame, total, perPage int) listing.Pager { return f.list.Pager(total, perPage) }

func newHead(f frame, field, label string) listing.Head { return f.list.Head(field, label) }

// Query returns a query parameter of the page.
func (f frame) Query(name string) string { return f.list.Query.Get(name) }

// Asked reports whether the page's list was searched.
func (f frame) Asked() bool { return f.list.Search() != "" }

// Sort returns the order of the list, "" for its own.
func (f frame) Sort() string { return f.list.Sort() }

// An exportLink is the link to a list as a CSV file.
type exportLink struct {
	URL  string
	Most int // rows of the file, if the list may have more
}

// newExport links to the file at path with the filters of the page. The total is 0 for lists
// that do not count their rows.
func newExport(f frame, path string, total int) exportLink {
	link := exportLink{URL: f.list.Export(path)}
	if total == 0 || total > export.MaxRows {
		link.Most = export.MaxRows
	}
	return link
}

// file answers with a list as a CSV file.
func file(v *visit, f export.File) (answer, error) {
	send, err := f.Write(v.Context())
	return raw(send), err
}

// offset is where the requested page of a list begins.
func (v *visit) offset(perPage int) int { return v.list.Offset(perPage) }

// sized are the views of lists, which know how many rows there are.
type sized interface{ Listed() listing.Size }

// within sends requests for a page beyond the last of a list to the last one.
func (v *visit) within(a answer) answer {
	if view, ok := a.data.(sized); ok && v.Method == http.MethodGet {
		if last := v.list.Beyond(view.Listed()); last != "" {
			return redirect(last, "")
		}
	}
	return a
}
