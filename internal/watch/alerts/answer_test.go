package alerts_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// gradedAt pushes sessions a second apart.
func (c *client) gradedAt(skill string, at time.Time, grades ...float64) {
	c.T.Helper()
	for i, grade := range grades {
		c.sessionsAt(skill, at.Add(time.Duration(i)*time.Second), grade)
	}
}

// TestSequential gathers evidence: eight failures after any number of passes fire,
// gradings that come late count in their place, and a new version begins anew.
func TestSequential(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		entry := ada.publish("", "pdf", "1.0")
		ada.alert(apptest.With(passRate(hookURL), object{"sensitivity": "sequential"}))
		begin := time.Now()
		ada.gradedAt("pdf", begin, repeat(1, 20)...)
		ada.gradedAt("pdf", begin.Add(time.Minute), repeat(0, 7)...)
		w.evaluate(ada, 3)
		ada.wantEvents()
		ada.gradedAt("pdf", begin.Add(3*time.Minute), 0)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf")
		event := ada.Get("/api/v1/alert-events").List("events")[0]
		if event["evidence"].(float64) < event["evidence_limit"].(float64) || event["last_graded_at"] == nil {
			t.Errorf("got the event %v", event)
		}
		ada.gradedAt("pdf", begin.Add(2*time.Minute), repeat(1, 4)...)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf") // less evidence than fires, more than resolves
		ada.gradedAt("pdf", begin.Add(2*time.Minute+10*time.Second), repeat(1, 12)...)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf", "resolved pdf")

		ada.gradedAt("pdf", begin.Add(4*time.Minute), repeat(0, 4)...)
		ada.publish(entry, "pdf", "2.0")
		ada.gradedAt("pdf", time.Now().Add(5*time.Minute), repeat(0, 8)...)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf", "resolved pdf") // eight of the new version
		ada.gradedAt("pdf", time.Now().Add(6*time.Minute), 0)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf", "resolved pdf", "firing pdf")
	})
}

// TestEvidenceOfChangedGradings gathers the evidence again when gradings change and leave
// the number of sessions and their pass rate as they were.
func TestEvidenceOfChangedGradings(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		entry := ada.publish("", "csv", "1.0")
		ada.publish(entry, "csv", "2.0")
		versions := ada.Get("/api/v1/registry/" + entry).Want(http.StatusOK).List("versions") // newest first
		ada.alert(apptest.With(passRate(hookURL), object{"sensitivity": "sequential"}))
		begin := time.Now()
		regraded := func(skill string, n int, failing bool, later time.Duration) {
			grade := 1.0
			if failing {
				grade = 0
			}
			session, at := fmt.Sprint(skill, n), begin.Add(time.Duration(n)*time.Second+later).UTC().Format(time.RFC3339Nano)
			ada.pushRecords(object{"grading_results": []object{{
				"grading_id": session, "session_id": session, "skill_name": skill, "graded_at": at, "pass_rate": grade,
			}}})
		}
		used := func(skill string, n int, at time.Time, hash any) {
			session := fmt.Sprint(skill, n)
			ada.pushRecords(object{"skill_invocations": []object{{
				"skill_invocation_id": session + at.String(), "session_id": session, "skill_name": skill, "triggered": true,
				"occurred_at": at.UTC().Format(time.RFC3339Nano), "skill_version_hash": hash,
			}}})
		}
		// Eight failures, then passes: the failures move to the end.
		for n := range 20 {
			used("pdf", n, begin, nil)
			regraded("pdf", n, n < 8, 0)
		}
		w.evaluate(ada, 2)
		ada.wantEvents()
		for n := range 8 {
			regraded("pdf", n, false, time.Millisecond)
			regraded("pdf", 19-n, true, time.Millisecond)
		}
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf")

		// Failures of the version before turn out to be of the current one.
		for n := range 10 {
			used("csv", n, begin, versions[1]["content_hash"])
			regraded("csv", n, true, 0)
		}
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf")
		for n := range 10 {
			used("csv", n, begin.Add(time.Second), versions[0]["content_hash"])
		}
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf", "firing csv")
	})
}

// TestWorseThanPrevious compares a version with the one before.
func TestWorseThanPrevious(t *testing.T) {
	t.Parallel()
	for _, sensitivity := range []string{"point", "confident", "sequential"} {
		t.Run(sensitivity, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db *store.DB) {
				w := newWorld(t, db, setup{})
				ada := w.org("acme")
				entry := ada.publish("", "pdf", "1.0")
				ada.sessions("pdf", repeat(0.6, 25)...)
				ada.alert(apptest.With(passRate(hookURL), object{
					"type": "worse_than_previous", "sensitivity": sensitivity, "threshold": 0.1,
				}))
				w.evaluate(ada, 2)
				ada.publish(entry, "pdf", "2.0")
				ada.gradedAt("pdf", time.Now(), repeat(0.55, 10)...)
				w.evaluate(ada, 2)
				ada.wantEvents() // not bad, though both are below 0.8
				ada.publish(entry, "pdf", "3.0")
				ada.gradedAt("pdf", time.Now(), repeat(0, 20)...)
				w.evaluate(ada, 2)
				if sensitivity != "point" { // 2.0 has too few sessions to be a reference
					ada.wantEvents()
				}
				ada.publish(entry, "pdf", "1.1")
				ada.Post("/api/v1/registry/"+entry+"/rollback", object{"target_version": "1.0"}).Want(http.StatusOK)
				ada.publish(entry, "pdf", "4.0")
				ada.gradedAt("pdf", time.Now(), repeat(0, 60)...)
				w.evaluate(ada, 2)
				ada.wantEvents("firing pdf")
				event := ada.Get("/api/v1/alert-events").List("events")[0]
				if event["measured"] != 0.0 || event["reference_version"] != "1.0" || event["version"] != "4.0" {
					t.Errorf("got the event %v", event)
				}
			})
		})
	}
}

// TestSilentFall notices that agents use a skill less often than they did.
func TestSilentFall(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.alert(apptest.With(passRate(hookURL), object{"type": "silent_fall", "sensitivity": "confident"}))
		ada.sessions("pdf", 1)
		ada.sessionsAt("pdf", time.Now().Add(-10*day), 1)
		offers := func(before, used string) {
			w.Exec(`UPDATE skill_days SET last_offered_sessions = 100, last_trigger_sessions = ` + used + ` WHERE day = (SELECT MAX(day) FROM skill_days)`)
			w.Exec(`UPDATE skill_days SET last_offered_sessions = 300, last_trigger_sessions = ` + before + ` WHERE day = (SELECT MIN(day) FROM skill_days)`)
		}
		offers("150", "40")
		w.evaluate(ada, 2)
		ada.wantEvents()
		offers("150", "10")
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf")
		event := ada.Get("/api/v1/alert-events").List("events")[0]
		if event["measured"] != 0.1 || event["reference"] != 0.5 || event["pass_rate"] != nil {
			t.Errorf("got the event %v", event)
		}
	})
}

// TestAcknowledge ends the reminders of one firing.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		id := ada.alert(passRate(hookURL))
		if got := ada.Post(alertsPath+"/"+id+"/ack", nil).Want(http.StatusOK).List("acknowledged"); len(got) != 0 {
			t.Errorf("acknowledged %v, but nothing fires", got)
		}
		ada.sessions("pdf", repeat(0, 5)...)
		w.evaluate(ada, 2)
		got := ada.Post(alertsPath+"/"+id+"/ack", nil).Want(http.StatusOK).List("acknowledged")
		if len(got) != 1 || got[0]["skill_id"] != ada.skill("pdf") || got[0]["acknowledged_by"] != ada.User.ID {
			t.Errorf("acknowledged %v", got)
		}
		again := ada.Post(alertsPath+"/"+id+"/ack", nil).Want(http.StatusOK).List("acknowledged")
		if again[0]["acknowledged_at"] != got[0]["acknowledged_at"] {
			t.Errorf("acknowledged again: %v, want %v", again, got)
		}
		w.Exec(`UPDATE alert_states SET last_notice_at = last_notice_at - $1`, (3 * day).Microseconds())
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf")
		ada.sessions("pdf", repeat(1, 45)...)
		w.evaluate(ada, 2)
		ada.sessions("pdf", repeat(0, 50)...)
		w.evaluate(ada, 2)
		w.Exec(`UPDATE alert_states SET last_notice_at = last_notice_at - $1`, (3 * day).Microseconds())
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf", "resolved pdf", "firing pdf", "reminder pdf") // that of another firing
		w.org("other").Post(alertsPath+"/"+id+"/ack", nil).Want(http.StatusNotFound)
		viewer := w.member(ada.Org, access.Viewer)
		viewer.Post(alertsPath+"/"+id+"/ack", nil).Want(http.StatusForbidden)
		viewer.Post(alertsPath+"/"+id+"/snooze", object{"until": nil}).Want(http.StatusForbidden)
	})
}

// TestSnooze keeps notices back until the end, and reports then what still fires.
func TestSnooze(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		id := ada.alert(passRate(hookURL))
		path := alertsPath + "/" + id + "/snooze"
		for _, until := range []time.Time{time.Now().Add(-time.Minute), time.Now().AddDate(2, 0, 0)} {
			ada.Post(path, object{"until": until.Format(time.RFC3339)}).WantIssueWith("until", "until must be in the future")
		}
		ada.Post(path, object{"until": "tomorrow"}).Want(http.StatusBadRequest)
		w.org("other").Post(path, object{"until": nil}).Want(http.StatusNotFound)
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		got := ada.Post(path, object{"until": until.Format(time.RFC3339Nano)}).Want(http.StatusOK).Object()
		if at, err := time.Parse(time.RFC3339, got["snoozed_until"].(string)); err != nil || !at.Equal(until) {
			t.Errorf("snoozed until %v, want %v", got["snoozed_until"], until)
		}
		sent := func() int { return w.Count("alert_deliveries WHERE rule_id = $1", id) }
		ada.sessions("pdf", repeat(0, 5)...)
		w.evaluate(ada, 3)
		if sent() != 0 || strings.Join(ada.events(), ",") != "firing pdf" {
			t.Errorf("%d notices of %v, want none of the firing", sent(), ada.events())
		}
		w.Exec(`UPDATE alert_rules SET snoozed_until = $1`, store.Micros(time.Now().Add(-time.Second)))
		w.evaluate(ada, 3)
		if sent() != 1 || strings.Join(ada.events(), ",") != "firing pdf,reminder pdf" {
			t.Errorf("%d notices of %v, want one that it still fires", sent(), ada.events())
		}

		// A firing without a notification has none of its resolution.
		ada.Post(path, object{"until": until.Format(time.RFC3339Nano)}).Want(http.StatusOK)
		ada.sessions("xls", repeat(0, 5)...)
		w.evaluate(ada, 2)
		ada.sessions("xls", repeat(1, 45)...)
		ada.sessions("pdf", repeat(1, 45)...)
		w.evaluate(ada, 2)
		if sent() != 2 {
			t.Errorf("%d notices, want that pdf is resolved and none of xls: %v", sent(), ada.events())
		}
	})
}

// TestStaleData says in a reminder that nothing was graded for days.
func TestStaleData(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.alert(passRate(hookURL))
		ada.sessionsAt("pdf", time.Now().Add(-5*day), repeat(0, 6)...)
		w.evaluate(ada, 1)
		event := ada.Get("/api/v1/alert-events").List("events")[0]
		if note, _ := event["note"].(string); !strings.Contains(note, "No session was graded since") {
			t.Errorf("the note is %v", event["note"])
		}
	})
}

// TestNewTypes validates the thresholds of alerts.
func TestNewTypes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db, setup{}).org("acme")
		for kind, want := range map[string]any{"worse_than_previous": 0.1, "silent_fall": 0.5, "pass_rate_below": 0.8, "no_data": 7.0} {
			got := ada.Post(alertsPath, apptest.With(passRate(hookURL), object{"type": kind})).Want(http.StatusCreated).Object()
			sensitivity := "point"
			if kind == "worse_than_previous" {
				sensitivity = "sequential"
			}
			if got["threshold"] != want || got["sensitivity"] != sensitivity || got["snoozed_until"] != nil {
				t.Errorf("%s: got %v", kind, got)
			}
		}
		cost := apptest.With(passRate(hookURL), object{"type": "cost_above"})
		ada.Post(alertsPath, cost).WantIssueWith("threshold", "threshold must be US dollars for a use")
		ada.Post(alertsPath, apptest.With(cost, object{"threshold": 10_001})).WantIssueWith("threshold", "threshold must be US dollars")
		ada.Post(alertsPath, apptest.With(cost, object{"threshold": 0.25})).Want(http.StatusCreated)
		ada.Post(alertsPath, apptest.With(passRate(hookURL), object{"type": "silent_fall", "threshold": 2})).
			WantIssueWith("threshold", "threshold must be between 0 and 1")
		ada.Post(alertsPath, apptest.With(passRate(hookURL), object{"sensitivity": "wild"})).Want(http.StatusBadRequest)
		ada.Post(alertsPath, apptest.With(cost, object{"threshold": 1, "action": "rollback"})).WantIssueWith("action", "action rollback needs")
	})
}

// TestRollbackSensitivity: an alert that rolls back is never point.
func TestRollbackSensitivity(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db, setup{}).org("acme")
		ada.sessions("pdf", 1)
		body := apptest.With(passRate(hookURL), object{"skill_id": ada.skill("pdf"), "action": "rollback"})
		for _, kind := range []string{"pass_rate_below", "worse_than_previous"} {
			body := apptest.With(body, object{"type": kind})
			ada.Post(alertsPath, apptest.With(body, object{"sensitivity": "point"})).
				WantIssueWith("sensitivity", "sensitivity must be confident or sequential with action rollback")
			made := ada.Post(alertsPath, body).Want(http.StatusCreated).Object()
			if made["sensitivity"] != "sequential" {
				t.Errorf("%s: got %v", kind, made)
			}
			path := alertsPath + "/" + made["id"].(string)
			ada.Do(http.MethodPatch, path, object{"sensitivity": "point"}).
				WantIssueWith("sensitivity", "sensitivity must be confident or sequential with action rollback")
			ada.Do(http.MethodPatch, path, object{"sensitivity": "confident"}).Want(http.StatusOK)
		}
	})
}
