package curate_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

type object = apptest.Object

func newWorld(t *testing.T, db *store.DB) *apptest.World {
	t.Helper()
	w := apptest.NewWorld(t, db, apptest.Options{})
	s := &skills.Service{DB: db, Jobs: w.Queue, Window: 30, Versions: registry.History{}}
	c := &curate.Service{DB: db, Jobs: w.Queue, Skills: s}
	s.Mount(w.API)
	c.Mount(w.API)
	c.Register()
	return w
}

// add makes a skill of an organisation and returns its id.
func add(c *apptest.Caller, name string) (id string) {
	c.T.Helper()
	err := c.World.DB.InTx(c.T.Context(), func(tx *store.Tx) (err error) {
		id, err = skills.Resolve(c.T.Context(), tx, c.Org.ID, name)
		return err
	})
	if err != nil {
		c.T.Fatalf("%v", err)
	}
	return id
}

func patch(c *apptest.Caller, skill string, body object) apptest.Response {
	c.T.Helper()
	return c.Do(http.MethodPatch, "/v1/skills/"+skill, body)
}

func TestHide(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		id := add(ada, "pdf")
		for _, hidden := range []bool{true, true, false} {
			got := patch(ada, "pdf", object{"hidden": hidden}).Want(http.StatusOK).Object()
			if skill := got["skill"].(object); skill["skill_id"] != id || skill["hidden"] != hidden || got["daily_stats"] == nil {
				t.Errorf("answers %v, want the detail with hidden %t", got, hidden)
			}
			for query, want := range map[string]bool{"": !hidden, "?hidden=true": hidden} {
				if listed := len(ada.Get("/v1/skills"+query).Want(http.StatusOK).List("skills")) == 1; listed != want {
					t.Errorf("GET /v1/skills%s: listed %t, want %t", query, listed, want)
				}
			}
		}
		// What changes nothing is not in the audit log.
		if n := w.Count("audit_entries WHERE action IN ('skills.skill.hide', 'skills.skill.unhide')"); n != 2 {
			t.Errorf("%d entries of the audit log, want 2", n)
		}
	})
}

// TestListings: whatever was done with a name, it is in exactly one of the lists, so
// that it can be found and brought back.
func TestListings(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		add(ada, "pdf")
		for _, confirmed := range []bool{false, true} {
			for _, hidden := range []bool{false, true} {
				for _, merged := range []bool{false, true} {
					name := fmt.Sprint("c-", confirmed, "-h-", hidden, "-m-", merged)
					id := add(ada, name)
					w.Exec(`UPDATE skills SET confirmed = $2 WHERE id = $1`, id, confirmed)
					change := object{"hidden": hidden}
					if merged {
						change["merged_into"] = "pdf"
					}
					patch(ada, name, change).Want(http.StatusOK)
				}
			}
		}
		for query, want := range map[string][]string{
			"":                 {"c-true-h-false-m-false", "pdf"},
			"?confirmed=false": {"c-false-h-false-m-false"},
			"?hidden=true":     {"c-false-h-true-m-false", "c-true-h-true-m-false"},
			"?merged=true":     {"c-false-h-false-m-true", "c-false-h-true-m-true", "c-true-h-false-m-true", "c-true-h-true-m-true"},
		} {
			for _, sort := range []string{"name", "-last_seen_at"} { // two ways to read a page
				var got []string
				for _, k := range ada.Get("/v1/skills" + query + map[bool]string{true: "?", false: "&"}[query == ""] + "sort=" + sort).
					Want(http.StatusOK).List("skills") {
					got = append(got, apptest.Text(k, "name"))
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("GET /v1/skills%s by %s (-want +got):\n%s", query, sort, diff)
				}
			}
		}
	})
}

func TestWhoMayUpdate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.Org("acme"), w.Org("other")
		id := add(ada, "pdf")
		for role, want := range map[access.Role]int{
			access.Viewer: http.StatusForbidden, access.Member: http.StatusForbidden,
			access.AdminRole: http.StatusOK, access.Owner: http.StatusOK,
		} {
			patch(w.Member(ada.Org, role), id, object{"hidden": true}).Want(want)
		}
		patch(eve, id, object{"hidden": true}).Want(http.StatusNotFound)
		patch(ada, "no-such-skill", object{"hidden": true}).Want(http.StatusNotFound)
		patch(w.Anonymous(), id, object{"hidden": true}).Want(http.StatusUnauthorized)
	})
}

func TestMergeRefuses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.Org("acme"), w.Org("other")
		pdf, old := add(ada, "pdf"), add(ada, "old-pdf")
		add(ada, "csv")
		add(ada, "wizard")
		w.Exec(`UPDATE skills SET confirmed = FALSE WHERE name = 'wizard'`)
		patch(ada, "old-pdf", object{"merged_into": pdf}).Want(http.StatusOK)
		for name, test := range map[string]struct {
			skill string
			into  any
		}{
			"itself":                 {"csv", add(ada, "csv")},
			"a merged one":           {"csv", old},
			"a cycle":                {"pdf", old},
			"a chain":                {"pdf", add(ada, "csv")},
			"unknown":                {"csv", "no-such-skill"},
			"another organisation's": {"csv", add(eve, "theirs")},
			"not confirmed":          {"csv", ada.Get("/v1/skills/wizard").Object()["skill"].(object)["skill_id"]},
			"empty":                  {"csv", ""},
			"no text":                {"csv", 1},
		} {
			got := patch(ada, test.skill, object{"merged_into": test.into}).Want(http.StatusBadRequest).Object()
			details, _ := got["details"].(object)
			if path, _ := details["path"].([]any); len(path) != 1 || path[0] != "merged_into" {
				t.Errorf("%s: answers %v, want a problem of merged_into", name, got)
			}
		}
		w.Exec(`INSERT INTO cloud_sources (id, org_id, label, source_type, skill_id, suggested_at, created_by, created_at)
			VALUES ('src', $1, 'csv', 'upload', $2, 0, $3, 0)`, ada.Org.ID, add(ada, "csv"), ada.User.ID)
		patch(ada, "csv", object{"merged_into": pdf}).Want(http.StatusConflict)
		patch(ada, "pdf", object{"merged_into": nil}).Want(http.StatusOK)
	})
}

// TestMergeMoves: the job of a merge runs, and the registry does not take the
// merged name.
func TestMergeMoves(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.Org("acme")
		pdf := add(ada, "pdf")
		s := &skills.Service{DB: db, Window: 30, Versions: registry.History{}}
		err := db.InTx(t.Context(), func(tx *store.Tx) error {
			return s.Observe(t.Context(), tx, skills.Report{OrgID: ada.Org.ID, UserID: ada.User.ID, Observations: []skills.Observation{{
				ID: skills.ID(ada.Org.ID, ada.User.ID, "test", "1"), SkillName: "acme:pdf", Session: "s", Triggered: true,
				At: time.Now(), NormalizedAt: time.Now(),
			}}}, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		patch(ada, "acme:pdf", object{"merged_into": pdf}).Want(http.StatusOK)
		defer w.Work()()
		w.Settle()
		if got := ada.Get("/v1/skills/pdf").Object()["skill"].(object)["unique_sessions"]; got != 1.0 {
			t.Errorf("%v sessions, want that of the merged skill", got)
		}
		err = db.InTx(t.Context(), func(tx *store.Tx) error {
			_, err := skills.Resolve(t.Context(), tx, ada.Org.ID, "acme:pdf")
			return err
		})
		if err == nil {
			t.Error("the registry may take a merged name")
		}
	})
}
