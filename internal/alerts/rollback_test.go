package alerts_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// publish pushes a version of the entry, or creates the entry if the id is empty,
// and returns its id.
func (c *client) publish(id, name, version string) string {
	c.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	metadata, err := json.Marshal(object{"name": name, "version": version})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := form.WriteField("metadata", string(metadata)); err != nil {
		c.t.Fatal(err)
	}
	archive, err := form.CreateFormFile("archive", "skill.tar.gz")
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := archive.Write(skillArchive(c.t, name+" "+version)); err != nil {
		c.t.Fatal(err)
	}
	if err := form.Close(); err != nil {
		c.t.Fatal(err)
	}
	path := "/api/v1/registry"
	if id != "" {
		path += "/" + id + "/versions"
	}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.w.server.URL+path, &body)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	return c.send(req).want(http.StatusCreated).object()["entry"].(object)["id"].(string)
}

// skillArchive is a tar.gz of a minimal skill.
func skillArchive(t *testing.T, description string) []byte {
	t.Helper()
	text := "---\nname: demo\ndescription: " + description + "\n---\n# Demo\n"
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	w := tar.NewWriter(compressed)
	err := w.WriteHeader(&tar.Header{Name: "SKILL.md", Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o644})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = compressed.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// entry returns an entry's current version and its rollbacks, newest first.
func (c *client) entry(id string) (current string, rollbacks []object) {
	c.t.Helper()
	a := c.get("/api/v1/registry/" + id).want(http.StatusOK)
	for _, v := range a.list("versions") {
		if v["is_current"] == true {
			current = v["version"].(string)
		}
	}
	return current, a.list("rollbacks")
}

// TestRollback: an alert that fires on a bad version rolls back to the one before
// and notes it in the event, once for each version.
func TestRollback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := receive(t, answering(http.StatusOK))
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
		event := ada.get("/api/v1/alert-events").list("events")[0]
		const note = "Rolled back from version 2.0 to 1.0."
		if event["note"] != note || event["version"] != "2.0" {
			t.Errorf("event %v", event)
		}
		current, rollbacks := ada.entry(entry)
		want := []object{{"from_version": "2.0", "to_version": "1.0", "reason": "alert " + alert, "rolled_back_by": ada.user.ID}}
		for i := range rollbacks {
			rollbacks[i] = without(rollbacks[i], "rolled_back_at")
		}
		if n := w.count(`audit_entries WHERE action = 'registry.version.rollback' AND actor = 'system' AND target_id = $1`, entry); n != 1 {
			t.Errorf("%d audit entries say that the service rolled back, want 1", n)
		}
		if diff := cmp.Diff(want, rollbacks); diff != "" || current != "1.0" {
			t.Errorf("current %s, rollbacks (-want +got):\n%s", current, diff)
		}
		w.work()
		if body := string(hook.await(1)[0].body); !strings.Contains(body, note) {
			t.Errorf("the notice does not say so: %s", body)
		}

		// The version before does well; then a user makes the bad one current again.
		ada.sessions("pdf", repeat(1, 100)...)
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf", "resolved pdf")
		ada.post("/api/v1/registry/"+entry+"/rollback", object{"target_version": "2.0"}).want(http.StatusOK)
		ada.sessions("pdf", repeat(0, 200)...)
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf", "resolved pdf", "firing pdf")
		event = ada.get("/api/v1/alert-events").list("events")[0]
		current, rollbacks = ada.entry(entry)
		if event["note"] != nil || event["version"] != "2.0" || current != "2.0" || len(rollbacks) != 2 {
			t.Errorf("event %v, current %s, rollbacks %v, want no second one", event, current, rollbacks)
		}
	})
}

// TestNoRollback: where a rollback would not help, the alert only notifies.
func TestNoRollback(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.publish(ada.publish("", "sick", "1.0"), "sick", "2.0") // 1.0 has no sessions
		fine := ada.publish("", "told", "1.0")
		ada.sessions("told", repeat(1, 10)...)
		ada.publish(fine, "told", "2.0")
		for _, skill := range []string{"loose", "sick", "told"} {
			ada.sessions(skill, repeat(0, 10)...)
			body := with(passRate(hookURL), object{"skill_id": ada.skill(skill), "action": "rollback"})
			if skill == "told" {
				body = without(body, "action")
			}
			ada.alert(body)
		}
		w.evaluate(ada, 3)
		ada.wantEvents("firing loose", "firing sick", "firing told")
		for _, e := range ada.get("/api/v1/alert-events").list("events") {
			if e["note"] != nil {
				t.Errorf("event %v, want no note", e)
			}
		}
		if n := w.count("registry_rollbacks"); n != 0 {
			t.Errorf("%d rollbacks, want none", n)
		}
	})
}
