package telemetry_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// secret is the text of a prompt.
const secret = "the-merger-is-on-friday"

// asked is a session with one prompt.
func asked(text string) object {
	now := stamp(time.Now().Truncate(24 * time.Hour)) // the same for all of a test
	return object{
		"sessions": []any{object{"session_id": "s", "model": "m"}},
		"prompts": []any{
			object{"prompt_id": "s:p0", "session_id": "s", "occurred_at": now, "prompt_text": text, "prompt_kind": "user"},
			object{"prompt_id": "s:p1", "session_id": "s", "occurred_at": text, "prompt_text": text}, // rejected
			object{"prompt_id": "s:p2", "session_id": []any{text}, "occurred_at": now, "prompt_text": text},
		},
		"skill_invocations": []any{check("1", object{"matched_prompt_id": "s:p0", "prompt_text": text, "occurred_at": now})},
		"grading_results":   []any{object{"grading_id": "g", "session_id": "s", "skill_name": "pdf", "graded_at": now, "pass_rate": 1}},
	}
}

// TestPromptsStayPrivate: no other user and no log gets to see a prompt.
func TestPromptsStayPrivate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		bob := w.member(ada.Org, access.Owner)
		id := uuid.NewString()
		answers := []apptest.Response{ada.push(id, asked(secret)).Want(http.StatusCreated), ada.push(id, asked(secret))}
		if diff := cmp.Diff([]string{"telemetry_prompts"}, w.TablesWith(secret)); diff != "" {
			t.Errorf("tables with the text (-want +got):\n%s", diff)
		}
		if n := w.Count("telemetry_prompts WHERE user_id = $1", ada.User.ID); n != 1 {
			t.Errorf("%d prompts, want 1", n)
		}
		for _, c := range []*client{ada, bob} {
			for _, path := range []string{
				"/v1/skills", "/v1/skills/pdf", "/api/v1/push/" + id, "/api/v1/alpha/verify",
				"/api/v1/registry",
			} {
				answers = append(answers, c.Get(path).Want(http.StatusOK))
			}
		}
		answers = append(answers, ada.Do(http.MethodPost, "/api/v1/push", `{"canonical":"`+secret+`"}`),
			ada.Do(http.MethodPost, "/api/v1/push", `{"canonical":{}`+secret))
		for _, a := range answers {
			if strings.Contains(string(a.Body), secret) {
				t.Errorf("%s tells: %s", a.What, a.Body)
			}
		}
		if log := w.Logged.String(); strings.Contains(log, secret) {
			t.Errorf("the log tells:\n%s", log)
		}
	})
}

func TestErase(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		ada := w.org("acme")
		bob := w.member(ada.Org, access.Member)
		pushed := uuid.NewString()
		ada.push(pushed, asked(secret)).Want(http.StatusCreated)
		ada.push("", asked(secret)).Want(http.StatusCreated)
		bob.push("", asked("bob's")).Want(http.StatusCreated)
		w.leaveOrphan(ada)
		before := ada.Get("/v1/skills/pdf").Object()

		ada.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		if found := w.TablesWith(secret); len(found) > 0 {
			t.Errorf("%v tell at once", found)
		}
		w.Settle()
		for _, table := range []string{"telemetry_prompts", "telemetry_records"} {
			if n := w.Count(table+" WHERE user_id = $1", ada.User.ID); n != 0 {
				t.Errorf("%s has %d rows", table, n)
			}
			if n := w.Count(table+" WHERE user_id = $1", bob.User.ID); n == 0 {
				t.Errorf("%s has nothing of bob", table)
			}
		}
		if keys := w.BlobKeys(); len(keys) != 1 || !strings.Contains(w.inflated(keys[0]), "bob's") {
			t.Errorf("kept %v, want only what bob sent", keys)
		}
		if diff := cmp.Diff(before, ada.Get("/v1/skills/pdf").Object()); diff != "" {
			t.Errorf("numbers (-before +after):\n%s", diff)
		}

		// Pushing the same again counts nothing twice.
		ada.push(pushed, asked(secret)).Want(http.StatusOK)
		ada.push(uuid.NewString(), asked(secret)).Want(http.StatusCreated)
		if diff := cmp.Diff(before, ada.Get("/v1/skills/pdf").Object()); diff != "" {
			t.Errorf("numbers (-before +after the same push):\n%s", diff)
		}
		ada.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		ada.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
	})
}

// leaveOrphan puts a raw body without a push, as a crash does, and returns its
// key.
func (w *world) leaveOrphan(c *client) string {
	w.T.Helper()
	known := w.BlobKeys()
	w.crash(c, uuid.NewString(), asked(secret))
	for _, key := range w.BlobKeys() {
		if !slices.Contains(known, key) {
			return key
		}
	}
	w.T.Fatal("nothing was left")
	return ""
}

// The jobs of telemetry that run on a schedule.
type (
	retainJob struct{}
	sweepJob  struct{}
)

func (retainJob) Kind() string { return "telemetry.retain" }
func (sweepJob) Kind() string  { return "telemetry.sweep" }

// run runs a job now.
func (w *world) run(args jobs.Args) {
	w.T.Helper()
	err := w.DB.InTx(w.T.Context(), func(tx *store.Tx) error { return w.Queue.Enqueue(w.T.Context(), tx, args) })
	if err != nil {
		w.T.Fatal(err)
	}
	w.Settle()
}

func TestRetention(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		ada := w.org("acme")
		bob := w.member(ada.Org, access.Member)
		pushed := uuid.NewString()
		ada.push(pushed, asked("old")).Want(http.StatusCreated)
		for i := range 120 { // more than are removed at a time
			ada.push(uuid.NewString(), invocations(check(fmt.Sprint("more", i), nil))).Want(http.StatusCreated)
		}
		bob.push("", asked("young")).Want(http.StatusCreated)
		for _, table := range []string{"telemetry_prompts", "telemetry_records", "telemetry_pushes"} {
			for c, age := range map[*client]time.Duration{ada: retention + time.Minute, bob: retention - time.Hour} {
				w.Exec(`UPDATE `+table+` SET received_at = $2 WHERE user_id = $1`, c.User.ID, store.Micros(time.Now().Add(-age)))
			}
		}
		before := ada.Get("/v1/skills/pdf").Object()
		w.run(retainJob{})
		for table, want := range map[string]int{
			"telemetry_prompts": 1, "telemetry_records": 2, "telemetry_pushes": 122,
			"telemetry_pushes WHERE blob_key IS NOT NULL": 1,
		} {
			if n := w.Count(table); n != want {
				t.Errorf("%s: %d rows, want %d", table, n, want)
			}
		}
		if n := w.Count(`stored_bytes b WHERE b.bytes = (SELECT bytes FROM telemetry_pushes WHERE user_id = $1)`,
			bob.User.ID); n != 1 {
			t.Error("more is counted than what is left")
		}
		w.run(retainJob{}) // nothing is left to remove, or to record
		if n := w.Count(`audit_entries WHERE action = 'telemetry.data.expire' AND actor = 'system' AND org_id = $1`,
			ada.Org.ID); n != 1 {
			t.Errorf("%d audit entries, want 1", n)
		}
		if keys := w.BlobKeys(); len(keys) != 1 || !strings.Contains(w.inflated(keys[0]), "young") {
			t.Errorf("kept %d bodies", len(keys))
		}
		if diff := cmp.Diff(before, ada.Get("/v1/skills/pdf").Object()); diff != "" {
			t.Errorf("numbers (-before +after):\n%s", diff)
		}
		ada.push(pushed, asked("old")).Want(http.StatusOK)
	})
}

// TestSweep: old raw bodies without a push are deleted.
func TestSweep(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	w.Work()
	ada := w.org("acme")
	old, young := w.leaveOrphan(ada), w.leaveOrphan(ada)
	long := time.Now().Add(-retention - time.Minute)
	if err := os.Chtimes(filepath.Join(w.BlobDir, "objects", old), long, long); err != nil {
		t.Fatal(err)
	}
	w.run(sweepJob{})
	if diff := cmp.Diff([]string{young}, w.BlobKeys()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
