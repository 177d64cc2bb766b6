package catalog_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// token makes a catalog token.
func token(c *registrytest.Client) string {
	c.T.Helper()
	return c.Do(http.MethodPost, "/api/v1/catalog-tokens", object{"name": "test"}).Want(http.StatusCreated).Text("token")
}

// TestOneSkill reads indexes of one skill, by its address.
func TestOneSkill(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, bob := w.Org("acme inc", access.Pro), w.Org("other", access.Pro)
		public := object{"visibility": "public"}
		ada.Made("pdf", "1", registrytest.Skill(t, "Of acme."), public)
		ada.Made("docx", "1", registrytest.Skill(t, "More."), public)
		ada.Made("mine", "1", registrytest.Skill(t, "Mine."))
		bob.Made("pdf", "1", registrytest.Skill(t, "Of other."), public)
		own := base("acme inc", token(ada))
		for _, c := range []struct{ base, want string }{
			{"/pdf", "Of acme."},
			{"/pdf@pdf", "Of acme."},
			{base("acme inc") + "/pdf", "Of acme."},
			{base("acme inc") + "/pdf@pdf", "Of acme."},
			{base("other") + "/pdf", "Of other."},
			{own + "/pdf", "Of acme."},
			{own + "/mine", "Mine."},
			{base("acme inc") + "/mine", ""},
			{"/mine", ""},
			{base("other") + "/docx", ""},
			{own + "/nothing", ""},
			{base("other", strings.TrimPrefix(own, base("acme inc")+"/")) + "/pdf", ""},
			{"/Pdf", ""},
		} {
			index := c.base + newIndex
			if c.want == "" {
				w.Anonymous().Get(index).Want(http.StatusNotFound)
				continue
			}
			list := w.Anonymous().Get(index).Want(http.StatusOK).List("skills")
			if len(list) != 1 || apptest.Text(list[0], "description") != c.want {
				t.Errorf("%s lists %v, want %s", index, list, c.want)
				continue
			}
			w.Fetch(index, list[0])
		}
		for _, path := range []string{own + "/pdf/.well-known", own + "/pdf/.well-known/skills/index.json", own + "/pdf/x", "/o/a/b/c/d"} {
			w.Anonymous().Get(path).Want(http.StatusNotFound)
		}
	})
}

// TestSearch asks as npx skills find does.
func TestSearch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Catalog.PublicURL = "https://skills.example"
		ada, bob := w.Org("acme", access.Pro), w.Org("other inc", access.Pro)
		public := object{"visibility": "public"}
		ada.Made("pdf-tables", "1", registrytest.Skill(t, "Reads tables."), public)
		ada.Made("docx", "1", registrytest.Skill(t, "Writes PDF and more."), public)
		used := ada.Made("sheet", "1", registrytest.Skill(t, "Turns a pdf into a sheet."), public)
		ada.Install(used, object{"device_id": "a"})
		ada.Made("pdf-secret", "1", registrytest.Skill(t, "Secret."))
		bob.Made("pdf-other", "1", registrytest.Skill(t, "Of another."), public)
		own := token(ada)
		for _, c := range []struct {
			path string
			want []string
		}{
			{"/api/search?q=pdf&limit=20", []string{"other inc/pdf-other", "acme/pdf-tables", "acme/sheet 1", "acme/docx"}},
			{"/api/search?q=PDF+more", []string{"acme/docx"}},
			{"/api/search?q=pdf&limit=1", []string{"other inc/pdf-other"}},
			{"/api/search?q=pdf&limit=x&owner=ACME", []string{"acme/pdf-tables", "acme/sheet 1", "acme/docx"}},
			{"/o/acme/api/search?q=secret", nil},
			{"/o/acme/" + own + "/api/search?q=secret", []string{"acme/pdf-secret"}},
			{"/o/other%20inc/api/search", []string{"other inc/pdf-other"}},
			{"/api/search?q=nothing", nil},
			{"/api/search?q=" + strings.Repeat("x", 3000), nil},
			{"/api/search?q=%ff%00", nil},
		} {
			a := w.Anonymous().Get(c.path).Want(http.StatusOK)
			var got []string
			for _, s := range a.List("skills") {
				apptest.WantKeys(t, s, "id", "name", "source", "installs")
				line := apptest.Text(s, "id")
				if s["installs"] != 0.0 {
					line += " 1"
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.path, diff)
			}
		}
		first := w.Anonymous().Get("/o/acme/" + own + "/api/search?q=secret").List("skills")[0]
		if got, want := apptest.Text(first, "source"), "https://skills.example/o/acme/"+own+"/pdf-secret"; got != want {
			t.Errorf("source %q, want %q", got, want)
		}
		w.Anonymous().Get("/o/acme/" + own + "x/api/search?q=secret").Want(http.StatusNotFound)
	})
}
