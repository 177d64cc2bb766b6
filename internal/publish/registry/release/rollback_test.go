package release_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

type object = apptest.Object

func TestRollback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 3)
		path := registrytest.EntryPath(id) + "/rollback"
		step := func(name string, body any, version, from, want string) object {
			got := ada.Post(path, body).Want(http.StatusOK).Object()
			apptest.WantKeys(t, got, "entry", "version", "rolled_back_from", "reason")
			if apptest.Text(got, "entry", "id") != id || apptest.Text(got, "version", "version") != version ||
				apptest.Text(got, "rolled_back_from") != from ||
				apptest.At(got, "version", "is_current") != true || apptest.At(got, "version", "rolled_back") != false {
				t.Errorf("%s: %v", name, got)
			}
			if now := ada.Flags(id); now != want {
				t.Errorf("%s: versions%s, want%s", name, now, want)
			}
			return got
		}
		got := step("omitted", nil, "2", "3", " 3r 2c 1")
		if got["reason"] != nil {
			t.Errorf("reason %v, want null", got["reason"])
		}
		got = step("omitted again", object{"reason": "fails on empty input"}, "1", "2", " 3r 2r 1c")
		if got["reason"] != "fails on empty input" {
			t.Errorf("reason %v", got["reason"])
		}
		ada.Post(path, nil).WantErrorWith(http.StatusConflict, "Nothing to roll back to: 1 is the first version")
		ada.Post(path, object{"target_version": "1"}).WantErrorWith(http.StatusConflict, "Version 1 is current already")
		ada.Post(path, object{"target_version": "9"}).WantErrorWith(http.StatusNotFound, "Version 9 not found")
		step("target", object{"target_version": "3"}, "3", "1", " 3c 2r 1r")
		ada.Pushed(id, "4", registrytest.Skill(t, "4."))
		if now := ada.Flags(id); now != " 4c 3 2r 1r" {
			t.Errorf("after a push: versions%s", now)
		}
		step("nulls", object{"target_version": nil, "reason": nil}, "3", "4", " 4r 3c 2r 1r")

		var records []string
		for _, r := range ada.Get(registrytest.EntryPath(id)).List("rollbacks") {
			apptest.WantKeys(t, r, "from_version", "to_version", "reason", "rolled_back_by", "rolled_back_at", "published_version", "undone_at")
			if apptest.Text(r, "rolled_back_by") != ada.User.ID || !registrytest.WireTime.MatchString(apptest.Text(r, "rolled_back_at")) {
				t.Errorf("record %v", r)
			}
			records = append(records, fmt.Sprintf("%s>%s %v", r["from_version"], r["to_version"], r["reason"]))
		}
		want := []string{"4>3 <nil>", "1>3 <nil>", "2>1 fails on empty input", "3>2 <nil>"}
		if diff := cmp.Diff(want, records); diff != "" {
			t.Errorf("rollbacks (-want +got):\n%s", diff)
		}
	})
}

// TestRollbackTarget chooses the version that was current last, whatever the order
// of the pushes, and none that was left behind by a rollback or never current.
func TestRollbackTarget(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 3)
		path := registrytest.EntryPath(id) + "/rollback"
		ada.Post(path, object{"target_version": "1"}).Want(http.StatusOK)
		ada.Pushed(id, "4", registrytest.Skill(t, "4."))
		if got := apptest.Text(ada.Post(path, nil).Want(http.StatusOK).Object(), "version", "version"); got != "1" {
			t.Errorf("rolled back to %s, want 1: it was current before 4", got)
		}
		if got := apptest.Text(ada.Post(path, nil).Want(http.StatusOK).Object(), "version", "version"); got != "2" {
			t.Errorf("rolled back to %s, want 2: 3 and 4 are rolled back", got)
		}
		ada.Post(path, nil).WantErrorWith(http.StatusConflict, "no version that was current before 2 is left")
		if now := ada.Flags(id); now != " 4r 3r 2c 1r" {
			t.Errorf("versions%s, want no change", now)
		}
	})
}

// TestRollForward publishes the content of the version before as the next patch.
func TestRollForward(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 1)
		path := registrytest.EntryPath(id) + "/rollback"
		ada.Pushed(id, "x", registrytest.Skill(t, "x."))
		ada.Post(path, object{"roll_forward": true}).WantErrorWith(http.StatusConflict, "roll_forward needs a release with a SemVer version")
		ada.Pushed(id, "1.2.9", registrytest.Skill(t, "good."))
		ada.Pushed(id, "1.10.0", registrytest.Skill(t, "bad."))
		got := ada.Post(path, object{"roll_forward": true, "reason": "it fails"}).Want(http.StatusOK).Object()
		if apptest.Text(got, "version", "version") != "1.10.1" || apptest.At(got, "version", "is_current") != true ||
			apptest.Text(got, "rolled_back_from") != "1.10.0" {
			t.Errorf("got %v", got)
		}
		versions := ada.Get(registrytest.EntryPath(id) + "/versions").Want(http.StatusOK).List("versions")
		if versions[0]["content_hash"] != versions[2]["content_hash"] || versions[1]["rolled_back"] != true {
			t.Errorf("got the versions %v", versions)
		}
		a := ada.Get(registrytest.EntryPath(id) + "/versions/1.10.1/download").Want(http.StatusOK)
		b := ada.Get(registrytest.EntryPath(id) + "/versions/1.2.9/download").Want(http.StatusOK)
		if string(a.Body) != string(b.Body) || len(a.Body) == 0 {
			t.Error("the archives differ")
		}
	})
}

func TestRollbackRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 2)
		path := registrytest.EntryPath(id) + "/rollback"
		ada.Post(path, object{"target_version": 1}).WantIssueWith("target_version", "target_version")
		ada.Post(path, object{"reason": strings.Repeat("x", 1001)}).WantIssueWith("reason", "at most 1000 characters")
		ada.Post(path, []int{1}).WantIssueWith("", "the body")
		ada.Post(path, "{").WantIssueWith("", "not valid JSON")
		ada.Post(registrytest.EntryPath(uuid.NewString())+"/rollback", nil).
			WantErrorWith(http.StatusNotFound, "Registry entry not found")
		if now := ada.Flags(id); now != " 2c 1" {
			t.Errorf("versions%s, want no change", now)
		}
		ada.Post(path, object{"reason": "a\x00b", "unknown": true}).Want(http.StatusOK)
	})
}
