package registry_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

func TestList(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Get(registrytest.Path).Want(http.StatusOK).
			WantBody(object{"entries": []any{}, "pagination": object{"page": 1, "per_page": 1000, "total": 0}})
		archive := registrytest.Skill(t, "Reads tables.")
		id := ada.Made("pdf", "1.0.0", archive, object{"source_repo": "acme/skills", "visibility": "public"})
		two := registrytest.Skill(t, "Reads them better.")
		ada.Pushed(id, "1.1.0", two)
		ada.Post(registrytest.EntryPath(id)+"/install", nil).Want(http.StatusOK)
		w.Org("other", access.Pro).Made("others", "1", archive, object{"visibility": "public"})

		list := ada.Get(registrytest.Path).Want(http.StatusOK).List("entries")
		if len(list) != 1 {
			t.Fatalf("%d entries, want the organisation's own", len(list))
		}
		e := list[0]
		if !registrytest.WireTime.MatchString(apptest.Text(e, "updated_at")) ||
			apptest.Text(e, "updated_at") < apptest.Text(e, "created_at") {
			t.Errorf("updated_at %v, created_at %v", e["updated_at"], e["created_at"])
		}
		registrytest.DropVarying(t, e["current_version"].(object), []string{"id"}, nil)
		registrytest.DropVarying(t, e, []string{"skill_id"}, []string{"created_at", "updated_at"})
		want := object{
			"id": id, "name": "pdf", "entry_type": "skill", "description": "Reads them better.", "visibility": "public",
			"source_repo": "acme/skills", "current_version": object{"version": "1.1.0", "content_hash": registrytest.Sum(two)},
			"pass_rate": nil, "eval_count": 0.0, "installation_count": 1.0, "organisation": "acme",
		}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("entry (-want +got):\n%s", diff)
		}
	})
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		archive := registrytest.Skill(t, "x")
		for name, description := range map[string]string{
			"PDF": "Tables", "pdf": "forms", "pdf-tables": "", "100%": "percent", "1000": "number",
			"a_b": "", "acb": "", "back": `C:\temp`, "Ärger": "ÄRGER und mehr",
		} {
			ada.Made(name, "1", archive, object{"description": description, "visibility": "public"})
		}
		for _, c := range []struct {
			query string
			want  []string
		}{
			{"", []string{"100%", "1000", "PDF", "a_b", "acb", "back", "pdf", "pdf-tables", "Ärger"}},
			{"name=pdf", []string{"pdf"}},
			{"name=Pdf", []string{}},
			{"name=pd", []string{}},
			{"name=pdf%25", []string{}},
			{"name=nothing", []string{}},
			{"q=pdf", []string{"PDF", "pdf", "pdf-tables"}},
			{"q=TABLES", []string{"PDF", "pdf-tables"}},
			{"q=FORMS", []string{"pdf"}},
			{"q=0%25", []string{"100%"}},
			{"q=a_b", []string{"a_b"}},
			{"q=c%3A%5Ct", []string{"back"}},
			{"q=%25", []string{"100%"}},
			{"q=%5C", []string{"back"}},
			{"q=" + url.QueryEscape("Ärg"), []string{"Ärger"}},
			{"q=" + url.QueryEscape("ÄRGER"), []string{"Ärger"}},
			{"q=" + url.QueryEscape("' OR 1=1 --"), []string{}},
			{"q=pdf&name=pdf", []string{"pdf"}},
			{"per_page=2", []string{"100%", "1000"}},
			{"per_page=2&page=2", []string{"PDF", "a_b"}},
			{"per_page=2&page=9", []string{}},
		} {
			for _, path := range []string{registrytest.Path, registrytest.Path + "/public"} {
				got := ada.Get(path + "?" + c.query).Want(http.StatusOK)
				if diff := cmp.Diff(c.want, registrytest.Names(got.List("entries"))); diff != "" {
					t.Errorf("%s?%s (-want +got):\n%s", path, c.query, diff)
				}
			}
		}
		ada.Get(registrytest.Path + "?per_page=2&page=9&q=pdf").
			WantBody(object{"entries": []any{}, "pagination": object{"page": 9, "per_page": 2, "total": 3}})
		for query, field := range map[string]string{
			"page=0": "page", "per_page=0": "per_page", "per_page=1001": "per_page", "page=x": "page",
		} {
			ada.Get(registrytest.Path+"?"+query).WantIssueWith(field, field)
		}
	})
}

func TestGet(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		id := ada.Made("pdf", "1", registrytest.Skill(t, "1."))
		for i := 2; i <= 4; i++ {
			ada.Pushed(id, fmt.Sprint(i), registrytest.Skill(t, fmt.Sprint(i)))
		}
		for _, device := range []string{"a", "b"} {
			ada.Post(registrytest.EntryPath(id)+"/install", object{"device_id": device}).Want(http.StatusOK)
		}
		got := ada.Get(registrytest.EntryPath(id)).Want(http.StatusOK)
		apptest.WantKeys(t, got.Object(), "entry", "versions", "installation_count", "owners", "rollbacks")
		apptest.WantKeys(t, got.Object()["entry"].(object), "id", "name", "entry_type", "description", "visibility",
			"source_repo", "skill_id", "organisation", "created_at", "updated_at")
		if n := got.Object()["installation_count"]; n != 1.0 {
			t.Errorf("installation_count %v, want 1: both devices are one person's", n)
		}
		var order []string
		for _, v := range got.List("versions") {
			order = append(order, apptest.Text(v, "version"))
			if current := v["is_current"] == true; current != (apptest.Text(v, "version") == "4") {
				t.Errorf("version %v: is_current %v", v["version"], current)
			}
		}
		if diff := cmp.Diff([]string{"4", "3", "2", "1"}, order); diff != "" {
			t.Errorf("newest first (-want +got):\n%s", diff)
		}
		if ada.Do(http.MethodHead, registrytest.EntryPath(id), nil).Status != http.StatusOK ||
			ada.Get(registrytest.EntryPath(id)+"/").Status != http.StatusOK {
			t.Error("HEAD, or a trailing slash, is not answered")
		}
		ada.Get(registrytest.EntryPath(uuid.NewString())).WantErrorWith(http.StatusNotFound, "Registry entry not found")
		w.Anonymous().Get(registrytest.EntryPath(id)).WantErrorWith(http.StatusUnauthorized, "Missing API key")
	})
}
