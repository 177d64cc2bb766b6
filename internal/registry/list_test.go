package registry_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// names returns the names in a listing.
func names(entries []object) []string {
	list := []string{}
	for _, e := range entries {
		list = append(list, text(e, "name"))
	}
	return list
}

func TestList(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		empty := ada.get(registryPath).want(http.StatusOK)
		if diff := cmp.Diff(object{"entries": []any{}, "pagination": object{"page": 1.0, "per_page": 1000.0, "total": 0.0}}, empty.object()); diff != "" {
			t.Errorf("empty list (-want +got):\n%s", diff)
		}
		archive := skill(t, "Reads tables.")
		id := ada.made("pdf", "1.0.0", archive, object{"source_repo": "acme/skills", "visibility": "public"})
		two := skill(t, "Reads them better.")
		ada.push(id, "1.1.0", two).want(http.StatusCreated)
		ada.post(entryPath(id)+"/install", nil).want(http.StatusOK)
		w.org("other", access.Pro).made("others", "1", archive, object{"visibility": "public"})

		list := ada.get(registryPath).want(http.StatusOK).list("entries")
		if len(list) != 1 {
			t.Fatalf("%d entries, want the organisation's own", len(list))
		}
		e := list[0]
		if !wireTime.MatchString(text(e, "updated_at")) || text(e, "updated_at") < text(e, "created_at") {
			t.Errorf("updated_at %v, created_at %v", e["updated_at"], e["created_at"])
		}
		take(t, e["current_version"].(object), []string{"id"}, nil)
		take(t, e, []string{"skill_id"}, []string{"created_at", "updated_at"})
		want := object{
			"id": id, "name": "pdf", "entry_type": "skill", "description": "Reads tables.", "visibility": "public",
			"source_repo": "acme/skills", "current_version": object{"version": "1.1.0", "content_hash": sum(two)},
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
		ada := newWorld(t, db).org("acme", access.Pro)
		archive := skill(t, "x")
		for name, description := range map[string]string{
			"PDF": "Tables", "pdf": "forms", "pdf-tables": "", "100%": "percent", "1000": "number",
			"a_b": "", "acb": "", "back": `C:\temp`, "Ärger": "ÄRGER und mehr",
		} {
			ada.made(name, "1", archive, object{"description": description, "visibility": "public"})
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
			for _, path := range []string{registryPath, registryPath + "/public"} {
				got := ada.get(path + "?" + c.query).want(http.StatusOK)
				if diff := cmp.Diff(c.want, names(got.list("entries"))); diff != "" {
					t.Errorf("%s?%s (-want +got):\n%s", path, c.query, diff)
				}
			}
		}
		if got := at(ada.get(registryPath+"?per_page=2&page=9&q=pdf").object(), "pagination"); cmp.Diff(got, object{"page": 9.0, "per_page": 2.0, "total": 3.0}) != "" {
			t.Errorf("pagination %v", got)
		}
		for query, field := range map[string]string{"page=0": "page", "per_page=0": "per_page", "per_page=1001": "per_page", "page=x": "page"} {
			ada.get(registryPath+"?"+query).wantInvalid(field, field)
		}
	})
}

func TestGet(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme", access.Pro)
		id := ada.made("pdf", "1", skill(t, "1."))
		for i := 2; i <= 4; i++ {
			ada.push(id, fmt.Sprint(i), skill(t, fmt.Sprint(i))).want(http.StatusCreated)
		}
		for _, device := range []string{"a", "b"} {
			ada.post(entryPath(id)+"/install", object{"device_id": device}).want(http.StatusOK)
		}
		got := ada.get(entryPath(id)).want(http.StatusOK)
		wantKeys(t, got.object(), "entry", "versions", "installation_count", "rollbacks")
		wantKeys(t, got.object()["entry"].(object), "id", "name", "entry_type", "description", "visibility", "source_repo", "skill_id", "organisation", "created_at", "updated_at")
		if n := got.object()["installation_count"]; n != 1.0 {
			t.Errorf("installation_count %v, want 1: both devices are one person's", n)
		}
		var order []string
		for _, v := range got.list("versions") {
			order = append(order, text(v, "version"))
			if current := v["is_current"] == true; current != (text(v, "version") == "4") {
				t.Errorf("version %v: is_current %v", v["version"], current)
			}
		}
		if diff := cmp.Diff([]string{"4", "3", "2", "1"}, order); diff != "" {
			t.Errorf("newest first (-want +got):\n%s", diff)
		}
		if ada.do(http.MethodHead, entryPath(id), nil).status != http.StatusOK || ada.get(entryPath(id)+"/").status != http.StatusOK {
			t.Error("HEAD, or a trailing slash, is not answered")
		}
		ada.get(entryPath(uuid.NewString())).wantError(http.StatusNotFound, "Registry entry not found")
		w.anonymous().get(entryPath(id)).wantError(http.StatusUnauthorized, "Missing API key")
	})
}
