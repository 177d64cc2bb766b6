package alerts_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// grading is a failing grade of a session.
func grading(session string) object {
	return object{
		"grading_id": uuid.NewString(), "session_id": session, "skill_name": "pdf", "graded_at": time.Now().UTC().Format(time.RFC3339Nano),
		"pass_rate": 0,
	}
}

// TestForgedGrades: a member's grades are evidence, and seven sessions that fail roll a
// version back, whoever sent them. That is all that forged grades can do: one session counts
// once, others' sessions and other organisations' are out of reach, and what a person
// decides about the rollback stands.
func TestForgedGrades(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada, other := w.org("acme"), w.org("other")
		entry := ada.publish("", "pdf", "1.0")
		ada.sessions("pdf", repeat(1, 20)...)
		ada.publish(entry, "pdf", "1.1")
		var sessions []string
		for range 20 {
			session, at := uuid.NewString(), time.Now().UTC().Format(time.RFC3339Nano)
			sessions = append(sessions, session)
			ada.pushRecords(object{
				"skill_invocations": []object{{
					"skill_invocation_id": session, "session_id": session, "skill_name": "pdf", "occurred_at": at, "triggered": true,
				}},
				"grading_results": []object{{
					"grading_id": session, "session_id": session, "skill_name": "pdf", "graded_at": at, "pass_rate": 1,
				}},
			})
		}
		alert := ada.alert(apptest.With(passRate(hookURL), object{"skill_id": ada.skill("pdf"), "action": "rollback"}))
		org := auth.Organisation{ID: ada.Org.ID}
		eve, viewer := w.member(org, access.Member), w.member(org, access.Viewer)
		many := func(session func(i int) string) object {
			var all []object
			for i := range 40 {
				all = append(all, grading(session(i)))
			}
			return object{"grading_results": all}
		}
		one := uuid.NewString()
		push := func(c *client, canonical object) apptest.Response {
			return c.Post("/api/v1/push", object{"schema_version": "2.0", "push_id": uuid.NewString(), "canonical": canonical})
		}
		for _, c := range []struct {
			name  string
			forge func()
		}{
			{"one session, graded 40 times", func() {
				eve.sessions("pdf", 0)
				push(eve, many(func(int) string { return one })).Want(http.StatusCreated)
			}},
			{"another organisation's skill of the same name", func() { other.sessions("pdf", repeat(0, 40)...) }},
			{"by somebody who may only read", func() { push(viewer, many(func(i int) string { return sessions[i%20] })).Want(http.StatusForbidden) }},
			{"a rate below all rates", func() {
				g := grading(uuid.NewString())
				g["pass_rate"] = -1000
				if a := push(eve, object{"grading_results": []object{g}}); a.Status == http.StatusCreated && len(a.List("rejected")) == 0 {
					t.Errorf("taken: %s", a.Body)
				}
			}},
		} {
			c.forge()
			w.evaluate(ada, 2)
			if current, _ := ada.entry(entry); current != "1.1" {
				t.Errorf("%s: version %s is current", c.name, current)
			}
		}
		// With ids of ada's sessions eve grades sessions of her own.
		push(eve, many(func(i int) string { return sessions[i%20] })).Want(http.StatusCreated)
		if n := w.Count("skill_gradings WHERE user_id = $1 AND pass_rate < 1000000000", ada.User.ID); n != 0 {
			t.Errorf("%d grades of another person's sessions are worse", n)
		}

		// What is left: these, and others that she says she had. The rollback is recorded, and a person's
		// decision is final.
		eve.bad(entry, "pdf", "1.1", 60)
		if current, _ := ada.entry(entry); current != "1.0" {
			t.Errorf("version %s is current, want 1.0", current)
		}
		ada.wantRollback(alert, object{"version": "1.1"})
		ada.Post("/api/v1/registry/"+entry+"/rollback/undo", object{}).Want(http.StatusOK)
		eve.sessions("pdf", repeat(0, 100)...)
		w.evaluate(ada, 2)
		if current, _ := ada.entry(entry); current != "1.1" {
			t.Errorf("version %s is current after a person undid the rollback", current)
		}
	})
}
