package sources_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/sources/sourcestest"
)

type route struct {
	method, path string // the source's id in place of {id}
	body         any
	permission   access.Permission
}

// routes are all routes of a source, with valid bodies.
func routes() []route {
	suggestion := uuid.NewString()
	applied := decision(object{"suite_id": uuid.NewString()})
	return []route{
		{"GET", "/{id}", nil, access.Read},
		{"PATCH", "/{id}", object{"label": "x"}, access.Write},
		{"DELETE", "/{id}", nil, access.Write},
		{"POST", "/{id}/repohost-sync", nil, access.Write},
		{"GET", "/{id}/validation.sarif", nil, access.Read},
		{"GET", "/{id}/snapshots/" + suggestion + "/files/SKILL.md", nil, access.Read},
		{"GET", "/{id}/eval-suggestions", nil, access.Read},
		{"GET", "/{id}/eval-suggestions/reviews", nil, access.Read},
		{"POST", "/{id}/eval-suggestions/review", decision(nil), access.Write},
		{"DELETE", "/{id}/eval-suggestions/" + suggestion + "/review", nil, access.Write},
		{"POST", "/{id}/eval-suggestions/" + suggestion + "/apply-to-suite", applied, access.Write},
	}
}

// TestOthersSources: on every route a source of another organisation is forbidden,
// in either form of its id, and an unknown one is not found.
func TestOthersSources(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada, eve := w.Org("acme"), w.Org("evil")
		hers := text(eve.Uploaded(zipped(t, "SKILL.md", skillText)), "id")
		for _, r := range routes() {
			t.Run(r.method+" "+r.path, func(t *testing.T) {
				ada := ada.In(t)
				do := func(id string) answer {
					return ada.Do(r.method, sourcesPath+strings.Replace(r.path, "{id}", id, 1), r.body)
				}
				do(hers).WantErrorWith(http.StatusForbidden, "This cloud source belongs to another organisation")
				do(strings.TrimPrefix(hers, "src_")).WantErrorWith(http.StatusForbidden, "another organisation")
				for _, unknown := range []string{
					uuid.NewString(), "src_" + uuid.NewString(), "unknown", "src_",
					"src_src_" + uuid.NewString(),
				} {
					do(unknown).WantErrorWith(http.StatusNotFound, "Cloud source not found")
				}
			})
		}
		if eve.Detail(hers)["currentSnapshot"] == nil || len(eve.Reviewed(hers)) != 0 {
			t.Error("the source was changed")
		}
	})
}

// TestPermissions checks the order 401, permission, 400.
func TestPermissions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := sourcestest.New(t, db)
		ada := w.Org("acme")
		viewer := w.Member(ada.Org, access.Viewer)
		id := text(ada.Uploaded(zipped(t, "SKILL.md", skillText)), "id")
		all := append(routes(), route{"GET", "", nil, access.Read},
			route{"POST", "", object{"type": "upload", "label": "x"}, access.Write})
		for _, r := range all {
			path := sourcesPath + strings.Replace(r.path, "{id}", id, 1)
			w.Anonymous().Do(r.method, path, object{"bad": 1}).WantErrorWith(http.StatusUnauthorized, "")
			a := viewer.Do(r.method, path, r.body)
			if r.permission == access.Write {
				a.WantErrorWith(http.StatusForbidden, "write")
				viewer.Do(r.method, path, object{"label": 1}).WantErrorWith(http.StatusForbidden, "write")
			} else if a.Status == http.StatusForbidden || a.Status == http.StatusUnauthorized {
				t.Errorf("%s: status %d for a reader", a.What, a.Status)
			}
		}
		viewer.Upload(uploadPath, field("label", "x"), archivePart(zipped(t, "SKILL.md", skillText))).
			WantErrorWith(http.StatusForbidden, "write")
		w.Anonymous().Upload(uploadPath, field("label", "x")).WantErrorWith(http.StatusUnauthorized, "")
	})
}

// TestBothForms: an id names the same source with and without prefix.
func TestBothForms(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := sourcestest.New(t, db).Org("acme")
		id := text(ada.Uploaded(zipped(t, "SKILL.md", skillText)), "id")
		bare := strings.TrimPrefix(id, "src_")
		for _, form := range []string{id, bare, strings.ToUpper(bare), "src_" + strings.ToUpper(bare)} {
			if got := text(ada.Detail(form), "id"); got != id {
				t.Errorf("%s: got %s", form, got)
			}
			ada.Review(form, nil).Want(http.StatusOK)
			ada.Clear(form, "0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70").Want(http.StatusNoContent)
		}
	})
}
