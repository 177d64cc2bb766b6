package tokens_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/tokens"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

type object = apptest.Object

const (
	path  = "/api/v1/catalog-tokens"
	index = "/.well-known/agent-skills/index.json"
)

// create makes a token and returns its id and itself.
func create(c *registrytest.Client, body object) (id, raw string) {
	c.T.Helper()
	a := c.Do(http.MethodPost, path, body).Want(http.StatusCreated)
	return a.Text("catalog_token", "id"), a.Text("token")
}

func at(org, token string) string { return "/o/" + org + "/" + token + index }

func TestTokens(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, bob := w.Org("acme", access.Pro), w.Org("other", access.Pro)
		ada.Made("mine", "1", registrytest.Skill(t, "Mine."))
		bob.Made("theirs", "1", registrytest.Skill(t, "Theirs."))

		made := ada.Do(http.MethodPost, path, object{"name": "laptops", "expires_at": "2100-01-02T03:04:05Z"}).Want(http.StatusCreated)
		apptest.WantKeys(t, made.Object(), "catalog_token", "token")
		raw, id := made.Text("token"), made.Text("catalog_token", "id")
		if !regexp.MustCompile(`^ct_[0-9A-Za-z]{43}$`).MatchString(raw) {
			t.Errorf("token %q", raw)
		}
		listed := ada.Get(path).Want(http.StatusOK)
		if strings.Contains(string(listed.Body), raw) {
			t.Error("the list shows the token")
		}
		first := listed.List("catalog_tokens")[0]
		apptest.WantKeys(t, first, "id", "name", "prefix", "state", "created_by", "created_at", "last_used_at", "expires_at", "replaced_at", "sets")
		want := object{
			"id": id, "name": "laptops", "prefix": raw[:7], "state": "active", "created_by": ada.User.ID, "created_at": first["created_at"],
			"last_used_at": nil, "expires_at": "2100-01-02T03:04:05.000Z", "replaced_at": nil, "sets": []any{},
		}
		if diff := cmp.Diff(want, first); diff != "" {
			t.Errorf("token (-want +got):\n%s", diff)
		}

		// It opens the organisation's catalog, by path and by header, and no other one.
		list := w.Anonymous().Get(at("acme", raw)).Want(http.StatusOK)
		if !strings.Contains(string(list.Body), "Mine.") || list.Header.Get("Deprecation") != "" {
			t.Errorf("the catalog has %s, %v", list.Body, list.Header)
		}
		w.Anonymous().Get(registrytest.Resolve(t, at("acme", raw), list.List("skills")[0])).Want(http.StatusOK)
		for _, header := range []string{"Bearer " + raw, "Bearer " + ada.Key} {
			a := w.Anonymous().Do(http.MethodGet, "/o/acme"+index, nil, "Authorization: "+header).Want(http.StatusOK)
			if !strings.Contains(string(a.Body), "Mine.") || !strings.HasPrefix(a.Header.Get("Cache-Control"), "private") {
				t.Errorf("with a header: %s, %s", a.Body, a.Header.Get("Cache-Control"))
			}
		}
		a := w.Anonymous().Do(http.MethodGet, "/o/other"+index, nil, "Authorization: Bearer "+raw).Want(http.StatusOK)
		if strings.Contains(string(a.Body), "Theirs.") {
			t.Error("a token opens another organisation")
		}
		w.Anonymous().Do(http.MethodGet, "/o/acme"+index, nil, "Authorization: Bearer "+raw+"x").Want(http.StatusNotFound)
		for _, p := range []string{at("other", raw), at("acme", raw+"x"), at("acme", "ct_"+strings.Repeat("x", 43)), at("acme", raw[:20])} {
			w.Anonymous().Get(p).Want(http.StatusNotFound)
		}
		if used := ada.Get(path).List("catalog_tokens")[0]["last_used_at"]; used == nil {
			t.Error("the last use is not shown")
		}

		// Nothing else.
		refused := w.Anonymous().Do(http.MethodGet, "/api/v1/registry", nil, "Authorization: Bearer "+raw).Want(http.StatusForbidden)
		if got := refused.Text("error", "message"); !strings.Contains(got, "Catalog tokens open catalogs, not the API") {
			t.Errorf("the API says %s", refused.Body)
		}

		// Another organisation cannot see or end it.
		bob.Do(http.MethodDelete, path+"/"+id, nil).Want(http.StatusNotFound)
		bob.Do(http.MethodPost, path+"/"+id+"/rotate", object{}).Want(http.StatusNotFound)
		if got := bob.Get(path).Want(http.StatusOK).List("catalog_tokens"); len(got) != 0 {
			t.Errorf("another organisation sees %v", got)
		}
		ada.Do(http.MethodDelete, path+"/"+id, nil).Want(http.StatusNoContent)
		ada.Do(http.MethodDelete, path+"/"+id, nil).Want(http.StatusNotFound)
		w.Anonymous().Get(at("acme", raw)).Want(http.StatusNotFound)
	})
}

func TestTokenInput(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		for _, body := range []object{
			{}, {"name": ""}, {"name": strings.Repeat("x", 101)}, {"name": "x", "expires_at": "2020-01-01T00:00:00Z"}, {"name": "x", "expires_at": "soon"},
		} {
			ada.Do(http.MethodPost, path, body).Want(http.StatusBadRequest)
		}
		member := w.Member(ada.Org, access.Member)
		member.Get(path).Want(http.StatusForbidden)
		member.Do(http.MethodPost, path, object{"name": "x"}).Want(http.StatusForbidden)
		id, _ := create(ada, object{"name": "x"})
		for _, hours := range []int{-1, 2161} {
			ada.Do(http.MethodPost, path+"/"+id+"/rotate", object{"overlap_hours": hours}).Want(http.StatusBadRequest)
		}
		w.Exec(`INSERT INTO catalog_tokens (id, org_id, name, prefix, hash, created_by, created_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
			SELECT 'many' || i, $1, 'many', 'ct_', 'many' || i, $2, 0 FROM n`, ada.Org.ID, ada.User.ID)
		ada.Do(http.MethodPost, path, object{"name": "one more"}).Want(http.StatusConflict)
		ada.Do(http.MethodPost, path+"/"+id+"/rotate", object{}).Want(http.StatusConflict)
		// Those that expired long ago make room.
		w.Exec(`UPDATE catalog_tokens SET expires_at = 1 WHERE id = 'many1'`)
		ada.Do(http.MethodPost, path, object{"name": "one more"}).Want(http.StatusCreated)
	})
}

func TestRotate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("mine", "1", registrytest.Skill(t, "Mine."))
		end := time.Now().Add(30 * 24 * time.Hour)
		id, old := create(ada, object{"name": "laptops", "expires_at": end.Format(time.RFC3339)})

		// Both work during the overlap.
		a := ada.Do(http.MethodPost, path+"/"+id+"/rotate", object{}).Want(http.StatusCreated)
		apptest.WantKeys(t, a.Object(), "catalog_token", "token", "replaced")
		fresh := a.Text("token")
		if a.Text("catalog_token", "name") != "laptops" || a.Text("replaced", "id") != id || a.Text("replaced", "state") != tokens.Replaced {
			t.Errorf("rotated to %s", a.Body)
		}
		for field, want := range map[string]time.Time{
			"catalog_token": time.Now().Add(30 * 24 * time.Hour), "replaced": time.Now().Add(7 * 24 * time.Hour),
		} {
			got, err := time.Parse(time.RFC3339, a.Text(field, "expires_at"))
			if err != nil || got.Sub(want).Abs() > time.Hour {
				t.Errorf("%s expires at %v, want %v; %v", field, got, want, err)
			}
		}
		for _, raw := range []string{old, fresh} {
			w.Anonymous().Get(at("acme", raw)).Want(http.StatusOK)
		}
		ada.Do(http.MethodPost, path+"/"+id+"/rotate", object{}).Want(http.StatusConflict)
		w.Exec(`UPDATE catalog_tokens SET expires_at = created_at WHERE id = $1`, id)
		w.Anonymous().Get(at("acme", old)).Want(http.StatusNotFound)
		w.Anonymous().Get(at("acme", fresh)).Want(http.StatusOK)

		// Without an overlap the old one ends at once, and of two rotations one wins.
		id, old = create(ada, object{"name": "leaked"})
		answers := registrytest.Together(
			func() apptest.Response {
				return ada.Do(http.MethodPost, path+"/"+id+"/rotate", object{"overlap_hours": 0})
			},
			func() apptest.Response {
				return ada.Do(http.MethodPost, path+"/"+id+"/rotate", object{"overlap_hours": 0})
			},
		)
		if got := answers[0].Status + answers[1].Status; got != http.StatusCreated+http.StatusConflict {
			t.Errorf("two rotations: %d and %d", answers[0].Status, answers[1].Status)
		}
		w.Anonymous().Get(at("acme", old)).Want(http.StatusNotFound)
	})
}

// TestKeysInPaths uses an API key where a catalog token should be, before and after
// the end of that.
func TestKeysInPaths(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("mine", "1", registrytest.Skill(t, "Mine."))
		var log bytes.Buffer
		w.Catalog.Log = slog.New(slog.NewTextHandler(&log, nil))
		w.Catalog.KeysEnd = time.Date(2100, time.June, 1, 0, 0, 0, 0, time.UTC)
		for range 2 {
			a := w.Anonymous().Get(at("acme", ada.Key)).Want(http.StatusOK)
			for name, want := range map[string]string{
				"Deprecation": "@1794787200", "Sunset": "Tue, 01 Jun 2100 00:00:00 GMT",
				"Warning": `299 - "API keys open catalogs until 2100-06-01; use a catalog token"`,
			} {
				if got := a.Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		}
		told := log.String()
		if strings.Count(told, "\n") != 1 || !strings.Contains(told, "key="+ada.KeyID) || strings.Contains(told, ada.Key) {
			t.Errorf("the log says %s", told)
		}
		w.Catalog.KeysEnd = time.Now()
		w.Anonymous().Get(at("acme", ada.Key)).Want(http.StatusNotFound)
		w.Anonymous().Do(http.MethodGet, "/o/acme"+index, nil, fmt.Sprintf("Authorization: Bearer %s", ada.Key)).Want(http.StatusOK)
	})
}

func TestDeletedOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		ada.Made("mine", "1", registrytest.Skill(t, "Mine."))
		_, raw := create(ada, object{"name": "laptops"})
		w.Anonymous().Get(at("acme", raw)).Want(http.StatusOK)
		w.CloseOrg(ada.Org.ID)
		w.Anonymous().Get(at("acme", raw)).Want(http.StatusNotFound)
	})
}
