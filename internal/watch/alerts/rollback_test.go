package alerts_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// publish pushes a version of the entry, or creates the entry if the id is empty,
// and returns its id.
func (c *client) publish(id, name, version string) string {
	c.T.Helper()
	return c.pushText(id, name, version, name+" "+version, http.StatusCreated)
}

// pushText is publish with a description, and with the status of the answer.
func (c *client) pushText(id, name, version, description string, status int) string {
	c.T.Helper()
	path := "/api/v1/registry"
	if id != "" {
		path += "/" + id + "/versions"
	}
	text := "---\nname: demo\ndescription: " + description + "\n---\n# Demo\n"
	metadata := apptest.JSONPart(c.T, "metadata", object{"name": name, "version": version})
	archive := apptest.Part{Name: "archive", File: "skill.tar.gz", Content: []byte(apptest.Pack(c.w.T, "SKILL.md", text))}
	return apptest.Text(c.Upload(path, metadata, archive).Want(status).Object(), "entry", "id")
}

// entry returns an entry's current version and its rollbacks, newest first.
func (c *client) entry(id string) (current string, rollbacks []object) {
	c.T.Helper()
	a := c.Get("/api/v1/registry/" + id).Want(http.StatusOK)
	for _, v := range a.List("versions") {
		if v["is_current"] == true {
			current = v["version"].(string)
		}
	}
	return current, a.List("rollbacks")
}

// TestRollback: an alert that fires on a bad version rolls back to the one before
// and notes it in the event, once for each version.
func TestRollback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(http.StatusOK))
		entry := ada.publish("", "pdf", "1.0")
		ada.sessions("pdf", repeat(1, 10)...)
		alert := ada.alert(object{
			"type": "pass_rate_below", "skill_id": ada.skill("pdf"), "action": "rollback",
			"channel": "chat_a", "config": object{"chat_a_webhook_url": hook.URL},
		})
		w.evaluate(ada, 2)
		ada.publish(entry, "pdf", "2.0")
		ada.sessions("pdf", repeat(0, 10)...)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf")
		event := ada.Get("/api/v1/alert-events").List("events")[0]
		const note = "Rolled back from version 2.0 to 1.0."
		if event["note"] != note || event["version"] != "2.0" {
			t.Errorf("event %v", event)
		}
		current, rollbacks := ada.entry(entry)
		want := []object{{"from_version": "2.0", "to_version": "1.0", "reason": "alert " + alert, "rolled_back_by": ada.User.ID}}
		for i := range rollbacks {
			rollbacks[i] = apptest.Without(rollbacks[i], "rolled_back_at", "published_version", "undone_at")
		}
		if n := w.Count(`audit_entries WHERE action = 'registry.version.rollback' AND actor = 'system' AND target_id = $1`, entry); n != 1 {
			t.Errorf("%d audit entries say that the service rolled back, want 1", n)
		}
		if diff := cmp.Diff(want, rollbacks); diff != "" || current != "1.0" {
			t.Errorf("current %s, rollbacks (-want +got):\n%s", current, diff)
		}
		w.Work()
		if body := string(hook.Await(1)[0].Body); !strings.Contains(body, note) {
			t.Errorf("the notice does not say so: %s", body)
		}

		// The version before does well; then a user makes the bad one current again.
		ada.sessions("pdf", repeat(1, 100)...)
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf", "resolved pdf")
		ada.Post("/api/v1/registry/"+entry+"/rollback", object{"target_version": "2.0"}).Want(http.StatusOK)
		ada.sessions("pdf", repeat(0, 200)...)
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf", "resolved pdf", "firing pdf")
		event = ada.Get("/api/v1/alert-events").List("events")[0]
		current, rollbacks = ada.entry(entry)
		if current != "2.0" || len(rollbacks) != 2 || event["version"] != "2.0" || event["note"] !=
			"Not rolled back: version 2.0 was rolled back before, and somebody made it current again." {
			t.Errorf("event %v, current %s, rollbacks %v, want no second one", event, current, rollbacks)
		}
	})
}

// TestNoRollback: where there is nothing to go back to, the alert says so.
func TestNoRollback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		sick := ada.publish("", "sick", "1.0")
		ada.sessions("sick", repeat(0, 10)...)
		ada.publish(sick, "sick", "2.0")
		fine := ada.publish("", "told", "1.0")
		ada.sessions("told", repeat(1, 10)...)
		ada.publish(fine, "told", "2.0")
		for _, skill := range []string{"loose", "sick", "told"} {
			ada.sessions(skill, repeat(0, 10)...)
			body := apptest.With(passRate(hookURL), object{"skill_id": ada.skill(skill), "action": "rollback"})
			if skill == "told" {
				body = apptest.Without(body, "action")
			}
			ada.alert(body)
		}
		w.evaluate(ada, 3)
		ada.wantEvents("firing loose", "firing sick", "firing told")
		for _, e := range ada.Get("/api/v1/alert-events").List("events") {
			want := any(nil)
			if e["skill_name"] != "told" {
				want = "Not rolled back: no earlier version that was current is left that is not rolled back, withdrawn or below the threshold."
			}
			if e["note"] != want {
				t.Errorf("event %v, want the note %v", e, want)
			}
		}
		if n := w.Count("registry_rollbacks"); n != 0 {
			t.Errorf("%d rollbacks, want none", n)
		}
	})
}
