package web

import (
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func request(t *testing.T, query string, sorts ...string) tableRequest {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return tableRequest{Path: "/rows", Query: q, Sorts: sorts}
}

func TestSort(t *testing.T) {
	for query, want := range map[string]string{
		"":                  "-at",
		"sort=-at":          "-at",
		"sort=at":           "at",
		"sort=name":         "name",
		"sort=-name":        "-name",
		"sort=--name":       "-at",
		"sort=nonsense":     "-at",
		"sort=":             "-at",
		"sort=-":            "-at",
		"sort=name%3B+DROP": "-at",
	} {
		if got := request(t, query, "-at", "name").Order(); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	// The list's own order is not asked for: an index has it.
	if got := request(t, "sort=-at", "-at", "name").Sort(); got != "" {
		t.Errorf("%q, want none", got)
	}
	if got := request(t, "sort=at").Sort(); got != "" {
		t.Errorf("a list that cannot be sorted: %q", got)
	}
}

func TestHead(t *testing.T) {
	for _, c := range []struct{ query, field, order, url string }{
		{"", "-at", "descending", "/rows?sort=at"},
		{"", "name", "none", "/rows?sort=name"},
		{"q=a&page=3", "name", "none", "/rows?q=a&sort=name"},
		{"sort=name", "name", "ascending", "/rows?sort=-name"},
		{"sort=-name", "name", "descending", "/rows?sort=name"},
		{"sort=at", "-at", "ascending", "/rows?sort=-at"},
	} {
		got := request(t, c.query, "-at", "name").Head(c.field, "Label")
		if diff := cmp.Diff(Head{Label: "Label", URL: c.url, Order: c.order}, got); diff != "" {
			t.Errorf("%q by %s (-want +got):\n%s", c.query, c.field, diff)
		}
	}
}

func TestPager(t *testing.T) {
	for _, c := range []struct {
		query string
		total int
		want  Pager
	}{
		{"", 312, Pager{Page: 1, Pages: 7, From: 1, To: 50, Total: 312, Next: "/rows?page=2"}},
		{"page=7&q=a", 312, Pager{Page: 7, Pages: 7, From: 301, To: 312, Total: 312, Previous: "/rows?page=6&q=a"}},
		{"page=2", 50, Pager{Page: 2, Pages: 1, From: 50, To: 50, Total: 50, Previous: "/rows?page=1"}},
		{"", 0, Pager{Page: 1, Pages: 1}},
	} {
		if diff := cmp.Diff(c.want, request(t, c.query).Pager(c.total, 50)); diff != "" {
			t.Errorf("%q of %d (-want +got):\n%s", c.query, c.total, diff)
		}
	}
}

func TestPage(t *testing.T) {
	for query, want := range map[string]int{
		"": 1, "page=2": 2, "page=0": 1, "page=-1": 1, "page=1e9": 1, "page=nonsense": 1, "page=1000000000": 1_000_000,
		"page=99999999999999999999": 1,
	} {
		if got := request(t, query).Page(); got != want {
			t.Errorf("%q: %d, want %d", query, got, want)
		}
	}
	size := Size{Total: 120, PerPage: 50}
	for query, want := range map[string]string{
		"": "", "page=3": "", "page=4": "/rows?page=3", "page=1000000000&q=a": "/rows?page=3&q=a",
	} {
		if got := request(t, query).Beyond(size); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	if got := request(t, "page=4").Beyond(Size{PerPage: 50}); got != "" {
		t.Errorf("an empty list: %q", got)
	}
}

func TestRows(t *testing.T) {
	type row struct {
		name string
		n    int
	}
	orders := map[string]rowOrder[row]{
		"name": orderByText(func(r row) string { return r.name }),
		"n":    orderBy(func(r row) int { return r.n }),
	}
	for query, want := range map[string]string{"": "bAc", "sort=name": "Abc", "sort=-name": "cbA", "sort=n": "Abc", "sort=-n": "bcA"} {
		rows := []row{{"b", 2}, {"A", 1}, {"c", 2}}
		r := request(t, query, "", "name", "n")
		sortRows(r, rows, orders)
		got := ""
		for _, row := range rows {
			got += row.name
		}
		if got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	if got := cutRows(request(t, "page=2"), []int{1, 2, 3}, 2); !slices.Equal(got, []int{3}) {
		t.Errorf("page 2: %v", got)
	}
	if got := cutRows(request(t, "page=9"), []int{1, 2, 3}, 2); len(got) != 0 {
		t.Errorf("page 9: %v", got)
	}
	r := request(t, "q=+PDF+")
	if !r.Matches("a", "my pdf") || r.Matches("a") || !request(t, "").Matches("a") {
		t.Error("the search matches other rows")
	}
	if got := request(t, "q=a&page=2&cursor=x&sort=n").Export("/rows.csv"); got != "/rows.csv?q=a&sort=n" {
		t.Errorf("export: %s", got)
	}
}
