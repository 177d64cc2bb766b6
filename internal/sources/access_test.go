package sources_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

type route struct {
	method, path string // the source's id in place of {id}
	body         any
	permission   access.Permission
}

// routes are all that name a source, with bodies that are good.
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

// TestOthersSources checks on every route that another organisation's source
// is forbidden, in whatever form its id comes, and one that is not there not
// found.
func TestOthersSources(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.org("acme"), w.org("evil")
		hers := text(eve.uploaded(zipped(t, "SKILL.md", skillText)), "id")
		for _, r := range routes() {
			t.Run(r.method+" "+r.path, func(t *testing.T) {
				ada := ada.in(t)
				do := func(id string) answer {
					return ada.do(r.method, sourcesPath+strings.Replace(r.path, "{id}", id, 1), r.body)
				}
				do(hers).wantError(http.StatusForbidden, "This cloud source belongs to another organisation")
				do(strings.TrimPrefix(hers, "src_")).wantError(http.StatusForbidden, "another organisation")
				for _, unknown := range []string{uuid.NewString(), "src_" + uuid.NewString(), "unknown", "src_", "src_src_" + uuid.NewString()} {
					do(unknown).wantError(http.StatusNotFound, "Cloud source not found")
				}
			})
		}
		if eve.detail(hers)["currentSnapshot"] == nil || len(eve.reviewed(hers)) != 0 {
			t.Error("the source was changed")
		}
	})
}

// TestPermissions checks the order 401, permission, 400.
func TestPermissions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		viewer := w.member(ada.org, access.Viewer)
		id := text(ada.uploaded(zipped(t, "SKILL.md", skillText)), "id")
		all := append(routes(), route{"GET", "", nil, access.Read}, route{"POST", "", object{"type": "upload", "label": "x"}, access.Write})
		for _, r := range all {
			path := sourcesPath + strings.Replace(r.path, "{id}", id, 1)
			w.anybody().do(r.method, path, object{"bad": 1}).wantError(http.StatusUnauthorized, "")
			a := viewer.do(r.method, path, r.body)
			if r.permission == access.Write {
				a.wantError(http.StatusForbidden, "write")
				viewer.do(r.method, path, object{"label": 1}).wantError(http.StatusForbidden, "write")
			} else if a.status == http.StatusForbidden || a.status == http.StatusUnauthorized {
				t.Errorf("%s: status %d for a reader", a.what, a.status)
			}
		}
		viewer.upload(uploadPath, field("label", "x"), archivePart(zipped(t, "SKILL.md", skillText))).wantError(http.StatusForbidden, "write")
		w.anybody().upload(uploadPath, field("label", "x")).wantError(http.StatusUnauthorized, "")
	})
}

// TestBothForms of an id name the same source.
func TestBothForms(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme")
		id := text(ada.uploaded(zipped(t, "SKILL.md", skillText)), "id")
		bare := strings.TrimPrefix(id, "src_")
		for _, form := range []string{id, bare, strings.ToUpper(bare), "src_" + strings.ToUpper(bare)} {
			if got := text(ada.detail(form), "id"); got != id {
				t.Errorf("%s: got %s", form, got)
			}
			ada.review(form, nil).want(http.StatusOK)
			ada.clear(form, "0197a7a5-9d4e-7c3b-8f5e-2d6a1b9c4e70").want(http.StatusNoContent)
		}
	})
}
