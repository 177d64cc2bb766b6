package clawhub_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// ordered are the slugs of a list as it is.
func ordered(list []object) (all []string) {
	for _, o := range list {
		all = append(all, apptest.Text(o, "slug"))
	}
	return all
}

func TestSearch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		for _, s := range [][2]string{
			{"pdf-tables", "Reads tables."}, {"pdf", "Reads FILES of ÄRGER."}, {"word", "Writes pdf documents."}, {"my-pdf", "Another."},
		} {
			ada.Made(s[0], "1.0.0", registrytest.Skill(t, s[1]), public)
		}
		for query, want := range map[string][]string{
			"q=pdf":                              {"pdf", "pdf-tables", "my-pdf", "word"},
			"q=PDF":                              {"pdf", "pdf-tables", "my-pdf", "word"},
			"q=pdf&mode=exact":                   {"pdf"},
			"q=pdf&limit=1":                      {"pdf"},
			"q=pdf+tables":                       {"pdf-tables"},
			"q=files+reads":                      {"pdf"},
			"q=%C3%A4rger":                       {"pdf"},
			"q=nothing":                          nil,
			"q=":                                 nil,
			"":                                   nil,
			"q=%25":                              nil,
			"q=pdf&limit=-1":                     {"pdf", "pdf-tables", "my-pdf", "word"},
			"q=pdf&limit=99999999999999999999":   {"pdf", "pdf-tables", "my-pdf", "word"},
			"q=" + strings.Repeat("pdf+", 5_000): {"my-pdf", "pdf", "pdf-tables", "word"},
		} {
			got := ordered(w.Anonymous().Get("/api/v1/search?" + query).Want(http.StatusOK).List("results"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%.40s (- want, + got):\n%s", query, diff)
			}
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		ids := map[string]string{}
		for _, slug := range []string{"c", "a", "b", "ax"} {
			ids[slug] = ada.Made(slug, "1.0.0", registrytest.Skill(t, slug+"."), public)
		}
		ada.Pushed(ids["a"], "1.1.0", registrytest.Skill(t, "a again."))
		ada.Post(registrytest.EntryPath(ids["b"])+"/install", nil).Want(http.StatusOK)
		for query, want := range map[string][]string{
			"":               {"a", "ax", "b", "c"},
			"sort=createdAt": {"ax", "b", "a", "c"},
			"sort=installs":  {"a", "ax", "b", "c"},
			"prefix=a":       {"a", "ax"},
			"prefix=A":       {"a", "ax"},
			"prefix=%25":     nil,
			"cursor=x":       {"a", "ax", "b", "c"},
		} {
			if diff := cmp.Diff(want, ordered(w.Anonymous().Get("/api/v1/skills?"+query).Want(http.StatusOK).List("items"))); diff != "" {
				t.Errorf("%s (- want, + got):\n%s", query, diff)
			}
		}
		own := ordered(ada.Get(base("acme") + "/api/v1/skills?sort=installs").Want(http.StatusOK).List("items"))
		if diff := cmp.Diff([]string{"b", "a", "ax", "c"}, own); diff != "" {
			t.Errorf("own, by installations (- want, + got):\n%s", diff)
		}
		var pages []string
		for cursor := ""; ; {
			a := w.Anonymous().Get("/api/v1/skills?limit=1&cursor=" + url.QueryEscape(cursor)).Want(http.StatusOK)
			pages = append(pages, ordered(a.List("items"))...)
			if a.Object()["nextCursor"] == nil {
				break
			}
			cursor = apptest.Text(a.Object(), "nextCursor")
		}
		if diff := cmp.Diff([]string{"a", "ax", "b", "c"}, pages); diff != "" {
			t.Errorf("pages (- want, + got):\n%s", diff)
		}
	})
}

// TestVersionPages reads many versions in pages.
func TestVersionPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "0"), public)
		for i := 1; i < 5; i++ {
			ada.Pushed(id, fmt.Sprintf("1.0.%d", i), registrytest.Skill(t, fmt.Sprint(i)))
		}
		var got []string
		for cursor := ""; ; {
			a := w.Anonymous().Get("/api/v1/skills/pdf/versions?limit=2&cursor=" + cursor).Want(http.StatusOK)
			for _, v := range a.List("items") {
				got = append(got, apptest.Text(v, "version"))
			}
			if a.Object()["nextCursor"] == nil {
				break
			}
			cursor = apptest.Text(a.Object(), "nextCursor")
		}
		if diff := cmp.Diff([]string{"1.0.4", "1.0.3", "1.0.2", "1.0.1", "1.0.0"}, got); diff != "" {
			t.Errorf("(- want, + got):\n%s", diff)
		}
	})
}
