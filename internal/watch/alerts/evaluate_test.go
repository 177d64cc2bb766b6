package alerts_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestLifeOfAnAlert drives one alert through all transitions, with more
// evaluations than changes.
func TestLifeOfAnAlert(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		id := ada.alert(apptest.With(passRate(hookURL), object{"threshold": 0.75}))
		w.evaluate(ada, 2)
		ada.wantEvents()
		ada.sessions("pdf", 0, 0, 0, 0)
		w.evaluate(ada, 5)
		ada.wantEvents() // four sessions are too few, however bad
		ada.sessions("pdf", 0.5)
		w.evaluate(ada, 5)
		want := []string{"firing pdf"}
		ada.wantEvents(want...)

		// One reminder is sent a day after the last notification.
		for range 2 {
			w.Exec(`UPDATE alert_states SET last_notice_at = last_notice_at - $1`, (day - time.Minute).Microseconds())
			w.evaluate(ada, 2)
			ada.wantEvents(want...)
			w.Exec(`UPDATE alert_states SET last_notice_at = last_notice_at - $1`, time.Minute.Microseconds())
			w.evaluate(ada, 3)
			want = append(want, "reminder pdf")
			ada.wantEvents(want...)
		}

		// 15 good ones and 0.5 in 20: 0.775. One healthy evaluation is not enough,
		// and a breached one in between resets the streak.
		ada.sessions("pdf", repeat(1, 15)...)
		w.evaluate(ada, 1)
		ada.wantEvents(want...)
		ada.sessions("pdf", 0, 0, 0)
		w.evaluate(ada, 1)
		ada.sessions("pdf", repeat(1, 15)...)
		w.evaluate(ada, 1)
		ada.wantEvents(want...)
		w.evaluate(ada, 4)
		want = append(want, "resolved pdf")
		ada.wantEvents(want...)

		ada.sessions("pdf", repeat(0, 20)...)
		w.evaluate(ada, 3)
		want = append(want, "firing pdf")
		ada.wantEvents(want...)
		events := ada.Get("/api/v1/alert-events?alert_id=" + id).List("events")
		sequences := []float64{}
		for _, e := range events {
			sequences = append(sequences, e["sequence"].(float64))
		}
		if diff := cmp.Diff([]float64{5, 4, 3, 2, 1}, sequences); diff != "" {
			t.Errorf("sequences (-want +got):\n%s", diff)
		}
		first, resolved, second := events[4], events[1], events[0]
		if resolved["firing_since"] != first["occurred_at"] || second["firing_since"] != second["occurred_at"] {
			t.Errorf("firing_since: resolved %v, second %v", resolved, second)
		}
	})
}

// TestEvidence compares the figures of an event and of its notification.
func TestEvidence(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(http.StatusOK))
		id := ada.alert(passRate(hook.URL))
		awayFromMidnight()
		ada.sessionsAt("pdf", time.Now().Add(-10*day), repeat(1, 90)...) // out of the window
		ada.sessions("pdf", 1, 1, 1, 0, 0, 0, 0, 0.5, 0, 0)
		w.evaluate(ada, 1)
		event := ada.Get("/api/v1/alert-events").Want(http.StatusOK).List("events")[0]
		now := time.Now().UTC()
		want := object{
			"alert_id": id, "skill_id": ada.skill("pdf"), "skill_name": "pdf", "type": "pass_rate_below", "transition": "firing",
			"threshold": 0.8, "pass_rate": 0.35, "pass_rate_interval": []float64{0.1369, 0.6463}, "graded_sessions": 10,
			"days_without_sessions": nil, "window_from": now.Truncate(day).AddDate(0, 0, -6).Format("2006-01-02T00:00:00.000Z"),
			"sequence": 1, "version": nil, "note": nil, "measured": nil, "reference": nil, "reference_version": nil,
			"evidence": nil, "evidence_limit": nil,
		}
		times := []string{"window_to", "occurred_at", "firing_since", "last_session_at", "last_graded_at"}
		for _, field := range times {
			if at, err := time.Parse(time.RFC3339, event[field].(string)); err != nil || now.Sub(at).Abs() > time.Minute {
				t.Errorf("%s is %v, want now", field, event[field])
			}
		}
		near := cmpopts.EquateApprox(0, 1e-4)
		if diff := cmp.Diff(apptest.Plain(t, want), apptest.Without(event, append(times, "id", "states")...), near); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}

		w.Work()
		notice := hook.Await(1)[0]
		if notice.ID() != event["id"] {
			t.Errorf("webhook-id %s, want that of the event, %s", notice.ID(), event["id"])
		}
		body := notice.Object(t)
		wantBody := object{
			"type": "pass_rate_below", "skill": "pdf", "threshold": 0.8, "current_pass_rate": 0.35, "alert_id": id,
			"skill_id": ada.skill("pdf"), "status": "firing", "value": 0.35, "sample_size": 10,
			"interval": object{"low": 0.1369, "high": 0.6463}, "sequence": 1, "version": nil,
			"url": apptest.PublicURL + "/skills/" + ada.skill("pdf"),
		}
		if diff := cmp.Diff(apptest.Plain(t, wantBody), apptest.Without(body, "triggered_at", "window"), near); diff != "" {
			t.Errorf("notice (-want +got):\n%s", diff)
		}
		w.Settle()
		delivery := ada.deliveries(id)[0]
		if delivery["event_id"] != event["id"] || delivery["status"] != "delivered" || delivery["attempts"] != 1.0 ||
			delivery["response_status"] != 200.0 {
			t.Errorf("delivery %v", delivery)
		}
	})
}

// TestEachSkillOnItsOwn: an alert without a skill has a state per skill.
func TestEachSkillOnItsOwn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada, eve := w.org("acme"), w.org("evil")
		for _, c := range []*client{ada, eve} {
			for skill, grade := range map[string]float64{"pdf": 0, "csv": 1, "xls": 0.2} {
				c.sessions(skill, repeat(grade, 5)...)
			}
		}
		all := ada.alert(passRate(hookURL))
		one := ada.alert(apptest.With(passRate(hookURL), object{"skill_id": ada.skill("csv")}))
		for range 3 {
			if err := w.alerts.EvaluateDue(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		transitions := func(query string) []string {
			got := []string{}
			for _, e := range ada.Get("/api/v1/alert-events?" + query).Want(http.StatusOK).List("events") {
				got = append(got, e["transition"].(string)+" "+e["skill_name"].(string))
			}
			slices.Sort(got)
			return got
		}
		compare := func(query string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(append([]string{}, want...), transitions(query)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", query, diff)
			}
		}
		compare("alert_id="+all, "firing pdf", "firing xls")
		compare("alert_id=" + one)
		ada.sessions("pdf", repeat(1, 95)...)
		ada.sessions("csv", repeat(0, 95)...)
		w.evaluate(ada, 3)
		compare("alert_id="+all, "firing csv", "firing pdf", "firing xls", "resolved pdf")
		compare("alert_id="+one, "firing csv")
		compare("skill_id="+ada.skill("pdf"), "firing pdf", "resolved pdf")
		compare("alert_id=" + one + "&skill_id=" + ada.skill("pdf"))
		page := ada.Get("/api/v1/alert-events?per_page=2&page=3").Want(http.StatusOK)
		if len(page.List("events")) != 1 || page.Object()["pagination"].(object)["total"] != 5.0 {
			t.Errorf("third page: %s", page.Body)
		}
		eve.wantEvents()
	})
}

func TestSensitivity(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.alert(apptest.With(passRate(hookURL), object{"sensitivity": "confident"}))
		ada.sessions("pdf", 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
		w.evaluate(ada, 3)
		ada.wantEvents() // 0.6, but it may be up to 0.83
		ada.alert(passRate(hookURL))
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf")
		ada.sessions("pdf", slices.Concat(repeat(1, 54), repeat(0, 36))...)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf", "firing pdf") // 0.6 of 100: at most 0.69
	})
}

// TestAtTheThreshold: a pass rate made of thirds that equals the threshold.
func TestAtTheThreshold(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.alert(apptest.With(passRate(hookURL), object{"threshold": 0.5}))
		ada.sessions("thirds", 1./3, 1./3, 1./3, 1, 1./3, 1./3, 1./3, 1)
		ada.sessions("fifths", 1, 1, 1, 0, 0, 0)
		w.evaluate(ada, 1)
		ada.wantEvents()
		ada.sessions("thirds", 0.4999)
		w.evaluate(ada, 1)
		ada.wantEvents("firing thirds")
	})
}

// TestDisabled: a disabled alert is not evaluated, and keeps its state until it
// is enabled again.
func TestDisabled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		path := alertsPath + "/" + ada.alert(passRate(hookURL))
		ada.Do(http.MethodPatch, path, object{"enabled": false}).Want(http.StatusOK)
		ada.sessions("pdf", repeat(0, 5)...)
		w.evaluate(ada, 2)
		ada.wantEvents()
		ada.Do(http.MethodPatch, path, object{"enabled": true}).Want(http.StatusOK)
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf")
		ada.Do(http.MethodPatch, path, object{"enabled": false}).Want(http.StatusOK)
		ada.sessions("pdf", repeat(1, 95)...)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf")
		ada.Do(http.MethodPatch, path, object{"enabled": true}).Want(http.StatusOK)
		w.evaluate(ada, 3)
		ada.wantEvents("firing pdf", "resolved pdf")
	})
}

// TestOneEventForMany: replicas that evaluate concurrently create one event for a
// transition.
func TestOneEventForMany(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.sessions("pdf", repeat(0, 5)...)
		ada.alert(passRate(hookURL))
		ada.alert(apptest.With(passRate(hookURL), object{"type": "no_data", "threshold": 0}))
		replicas := []*world{w, newWorld(t, db, setup{}), newWorld(t, db, setup{})}
		round := func() {
			var wg sync.WaitGroup
			for _, replica := range replicas {
				for range 3 {
					wg.Go(func() {
						if err := replica.alerts.Evaluate(t.Context(), ada.Org.ID); err != nil {
							t.Error(err)
						}
					})
				}
			}
			wg.Wait()
		}
		round()
		ada.wantEvents("firing pdf")
		ada.sessions("pdf", repeat(1, 95)...)
		round()
		ada.wantEvents("firing pdf", "resolved pdf")
	})
}

// TestOneOrganisationFails: a rule that cannot be decrypted stops only its own
// organisation, which is evaluated again once the rule is in order.
func TestOneOrganisationFails(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		orgs := []*client{w.org("one"), w.org("two"), w.org("three")}
		for _, c := range orgs {
			c.alert(passRate(hookURL))
			c.sessions("pdf", repeat(0, 5)...)
		}
		broken := orgs[0].Org.ID
		w.Exec(`UPDATE alert_rules SET address = address || 'x' WHERE org_id = $1`, broken)
		if err := w.alerts.EvaluateDue(t.Context()); err == nil || !strings.Contains(err.Error(), broken) {
			t.Errorf("got %v, want the failure of %s", err, broken)
		}
		orgs[0].wantEvents()
		orgs[1].wantEvents("firing pdf")
		orgs[2].wantEvents("firing pdf")
		// It waits for the next interval, which is over here.
		w.Exec(`UPDATE alert_rules SET address = substr(address, 1, length(address) - 1), due_at = 0 WHERE org_id = $1 AND due_at > 0`, broken)
		if err := w.alerts.EvaluateDue(t.Context()); err != nil {
			t.Error(err)
		}
		orgs[0].wantEvents("firing pdf")
	})
}

// TestSoonAfterIngest: a push causes an evaluation within five seconds, and a
// burst of pushes is debounced.
func TestSoonAfterIngest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(http.StatusOK))
		ada.alert(passRate(hook.URL))
		w.Work()
		var took []time.Duration
		var want []string
		for i := range 20 {
			skill := fmt.Sprintf("skill-%d", i)
			var pushed time.Time
			for range 5 {
				ada.sessions(skill, 0)
				pushed = time.Now()
			}
			hook.Await(i + 1)
			took, want = append(took, time.Since(pushed)), append(want, "firing "+skill)
			// A machine that others use may hold up one, and not all of them.
			if i > 1 && slices.Min(took) < 3*time.Second {
				break
			}
		}
		if slices.Min(took) > 3*time.Second {
			t.Errorf("the notifications came after %v, want about a second", took)
		}
		w.Settle()
		ada.wantEvents(want...)
	})
}
