package release_test

import (
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

func TestUndo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.EntryOf("pdf", 3)
		back, undo := registrytest.EntryPath(id)+"/rollback", registrytest.EntryPath(id)+"/rollback/undo"
		ada.Post(undo, nil).WantErrorWith(http.StatusConflict, "Nothing to undo: pdf was never rolled back")

		ada.Post(back, nil).Want(http.StatusOK)
		got := ada.Post(undo, object{"reason": "the alert was wrong"}).Want(http.StatusOK).Object()
		apptest.WantKeys(t, got, "entry", "version", "rolled_back_from", "reason")
		if apptest.Text(got, "version", "version") != "3" || apptest.At(got, "version", "is_current") != true ||
			got["rolled_back_from"] != "2" || got["reason"] != "the alert was wrong" {
			t.Errorf("got %v", got)
		}
		if now := ada.Flags(id); now != " 3c 2 1" {
			t.Errorf("versions%s, want those of before the rollback", now)
		}
		ada.Post(undo, nil).WantErrorWith(http.StatusConflict, "The last rollback, from 3 to 2, was undone already")
		if at := ada.Get(registrytest.EntryPath(id)).List("rollbacks")[0]["undone_at"]; at == nil {
			t.Error("the record of the rollback does not say that it was undone")
		}

		// A rollback to a version that was rolled back before clears its mark; undoing
		// that sets it again.
		ada.Post(back, nil).Want(http.StatusOK)
		ada.Post(back, object{"target_version": "3"}).Want(http.StatusOK)
		ada.Post(undo, nil).Want(http.StatusOK)
		if now := ada.Flags(id); now != " 3r 2c 1" {
			t.Errorf("versions%s, want the mark of 3 again", now)
		}

		ada.Post(back, nil).Want(http.StatusOK)
		ada.Pushed(id, "4", registrytest.Skill(t, "4."))
		ada.Post(undo, nil).WantErrorWith(http.StatusConflict,
			"Version 4 became current after the rollback. To make 2 current all the same, roll back to it")

		ada.Post(registrytest.EntryPath(id)+"/versions/4/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
		ada.Post(undo, nil).WantErrorWith(http.StatusConflict, "Version 4 is withdrawn: restore it first")
		ada.Post(undo, object{"reason": strings.Repeat("x", 1001)}).WantIssueWith("reason", "at most 1000 characters")
		ada.Post(registrytest.EntryPath(uuid.NewString())+"/rollback/undo", nil).WantErrorWith(http.StatusNotFound, "not found")
	})
}

// TestUndoForward undoes a rollback that published the old content again.
func TestUndoForward(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := registrytest.New(t, db).Org("acme", access.Pro)
		id := ada.Made("pdf", "1.0.0", registrytest.Skill(t, "good."))
		ada.Pushed(id, "1.1.0", registrytest.Skill(t, "bad."))
		ada.Post(registrytest.EntryPath(id)+"/rollback", object{"roll_forward": true}).Want(http.StatusOK)
		record := ada.Get(registrytest.EntryPath(id)).List("rollbacks")[0]
		if record["to_version"] != "1.0.0" || record["published_version"] != "1.1.1" {
			t.Errorf("the record is %v", record)
		}
		ada.Post(registrytest.EntryPath(id)+"/rollback/undo", nil).Want(http.StatusOK)
		if now := ada.Flags(id); now != " 1.1.1 1.1.0c 1.0.0" {
			t.Errorf("versions%s", now)
		}
	})
}

func TestChoices(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := reverter{registrytest.New(t, db)}
		ada, eve := r.Org("acme", access.Pro), r.Org("evil", access.Pro)
		id := ada.EntryOf("pdf", 1)
		path := registrytest.EntryPath(id) + "/rollback"
		got := ada.Get(path).Want(http.StatusOK).Object()
		apptest.WantKeys(t, got, "current", "targets", "default_target", "undo", "forward_only_clients")
		if got["default_target"] != nil || got["undo"] != nil || len(got["targets"].([]any)) != 0 || got["forward_only_clients"] != false {
			t.Errorf("a single version: %v", got)
		}

		r.grade(ada, "pdf", 0.9, 5)
		ada.Pushed(id, "2", registrytest.Skill(t, "2."))
		ada.Pushed(id, "3", registrytest.Skill(t, "3."))
		ada.Post(registrytest.EntryPath(id)+"/versions/2/withdraw", object{"reason": "bad"}).Want(http.StatusOK)
		got = ada.Get(path).Want(http.StatusOK).Object()
		targets := ada.Get(path).List("targets")
		if len(targets) != 1 || got["default_target"] != "1" {
			t.Fatalf("got %v, want only 1: 2 is withdrawn", got)
		}
		apptest.WantKeys(t, targets[0], "version", "state", "rolled_back", "pass_rate", "pass_rate_interval", "pass_rate_basis",
			"graded_sessions", "sessions", "cost", "pushed_at", "current_since", "current_until")
		figures := object{
			"version": "1", "state": "published", "rolled_back": false, "pass_rate": 0.9, "pass_rate_basis": "pushed",
			"graded_sessions": 5.0, "cost": nil,
		}
		for key, want := range figures {
			if diff := cmp.Diff(want, targets[0][key]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", key, diff)
			}
		}
		if targets[0]["current_since"] == nil || targets[0]["current_until"] == nil ||
			apptest.At(got, "current", "version") != "3" || apptest.At(got, "current", "current_until") != nil {
			t.Errorf("got %v", got)
		}

		ada.Post(path, nil).Want(http.StatusOK)
		got = ada.Get(path).Want(http.StatusOK).Object()
		if apptest.Text(got, "undo", "from_version") != "3" || apptest.Text(got, "undo", "to_version") != "1" || got["default_target"] != nil {
			t.Errorf("after a rollback: %v", got)
		}
		eve.Get(path).WantErrorWith(http.StatusNotFound, "not found")
		public := ada.Made("shared", "1", registrytest.Skill(t, "s."), object{"visibility": "public"})
		eve.Get(registrytest.EntryPath(public)+"/rollback").WantErrorWith(http.StatusNotFound, "not found")
	})
}

// TestRevertForward rolls forward only where a client needs it, and can.
func TestRevertForward(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := reverter{registrytest.New(t, db)}
		ada := r.Org("acme", access.Pro)
		for _, c := range []struct {
			name, good, bad, client, agent, want string
		}{
			{"forward", "1.0.0", "1.1.0", "clawhub", "", " 1.1.1c 1.1.0r 1.0.0"},
			{"with-a-version", "1.0.0", "1.1.0", "ClawHub/0.23.3", "", " 1.1.1c 1.1.0r 1.0.0"},
			{"by-user-agent", "1.0.0", "1.1.0", "", "clawhub/0.24.0", " 1.1.1c 1.1.0r 1.0.0"},
			{"follows-down", "1.0.0", "1.1.0", "whetstone/1.0", "", " 1.1.0r 1.0.0c"},
			{"not-named", "1.0.0", "1.1.0", "", "node", " 1.1.0r 1.0.0c"},
			{"no-next-patch", "one", "two", "clawhub", "", " twor onec"},
		} {
			id := ada.Made(c.name, c.good, registrytest.Skill(t, c.name+" good"))
			r.grade(ada, c.name, 1, 5)
			ada.Pushed(id, c.bad, registrytest.Skill(t, c.name+" bad"))
			r.grade(ada, c.name, 0, 5)
			ada.Do(http.MethodPost, registrytest.EntryPath(id)+"/install", object{"device_id": "laptop", "client": c.client}, "User-Agent: "+c.agent).
				Want(http.StatusOK)
			if note := r.reverted(ada, r.skillID(ada, c.name)); note == "" {
				t.Errorf("%s: nothing was done", c.name)
			}
			if now := ada.Flags(id); now != c.want {
				t.Errorf("%s: versions%s, want%s", c.name, now, c.want)
			}
		}
	})
}
