package alerts_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// quick is the backoff with six short waits.
var quick = []time.Duration{
	time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond,
}

// fire makes an alert on a URL fire, and returns its id. It pushes before the
// alert exists, so that no other evaluation follows.
func (c *client) fire(url string) string {
	c.T.Helper()
	c.sessions("pdf", repeat(0, 5)...)
	id := c.alert(passRate(url))
	c.w.evaluate(c, 1)
	return id
}

// outcome waits for the only delivery of an alert to end and describes it.
func (c *client) outcome(id string) string {
	c.T.Helper()
	var d object
	apptest.Eventually(c.T, "the end of the delivery", func() bool {
		d = c.deliveries(id)[0]
		return d["status"] == "delivered" || d["status"] == "failed"
	})

	if d["next_attempt_at"] != nil || d["attempted_at"] == nil {
		c.T.Errorf("times of an ended delivery: %v", d)
	}
	return fmt.Sprintf("%v after %v: %v %v", d["status"], d["attempts"], d["response_status"], d["detail"])
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	slow := func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(200 * time.Millisecond)
		w.WriteHeader(http.StatusOK)
	}
	cases := []struct {
		name    string
		answers []http.HandlerFunc
		want    string
	}{
		{"200", []http.HandlerFunc{notifytest.Answering(200)}, "delivered after 1: 200 HTTP 200 OK"},
		{"202", []http.HandlerFunc{notifytest.Answering(202)}, "delivered after 1: 202 HTTP 202 Accepted"},
		{"slow", []http.HandlerFunc{slow}, "delivered after 1: 200 HTTP 200 OK"},
		{"500 then 200", []http.HandlerFunc{notifytest.Answering(500), notifytest.Answering(200)}, "delivered after 2: 200 HTTP 200 OK"},
		{"hangs up then 200", []http.HandlerFunc{hangUp, notifytest.Answering(200)}, "delivered after 2: 200 HTTP 200 OK"},
		{"408 then 200", []http.HandlerFunc{notifytest.Answering(408), notifytest.Answering(200)}, "delivered after 2: 200 HTTP 200 OK"},
		{"503 six times", []http.HandlerFunc{
			notifytest.Answering(503), notifytest.Answering(503), notifytest.Answering(503), notifytest.Answering(503), notifytest.Answering(503), notifytest.Answering(503), notifytest.Answering(200),
		}, "delivered after 7: 200 HTTP 200 OK"},
		{"503 for ever", []http.HandlerFunc{notifytest.Answering(503)}, "failed after 7: 503 HTTP 503 Service Unavailable"},
		{"400", []http.HandlerFunc{notifytest.Answering(400), notifytest.Answering(200)}, "failed after 1: 400 HTTP 400 Bad Request"},
		{"401", []http.HandlerFunc{notifytest.Answering(401), notifytest.Answering(200)}, "failed after 1: 401 HTTP 401 Unauthorized"},
		{"404", []http.HandlerFunc{notifytest.Answering(404), notifytest.Answering(200)}, "failed after 1: 404 HTTP 404 Not Found"},
		{
			"redirect",
			[]http.HandlerFunc{notifytest.Answering(302, "Location", "/elsewhere"), notifytest.Answering(200)},
			"failed after 1: 302 HTTP 302 Found: redirects are not followed, set the final address",
		},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{backoff: quick})
		w.Work()
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				ada := w.org(c.name).in(t)
				hook := notifytest.Receive(t, c.answers...)
				id := ada.fire(hook.URL)
				if got := ada.outcome(id); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
				w.Settle()
				requests := hook.Requests()
				if attempts := ada.deliveries(id)[0]["attempts"]; attempts != float64(len(requests)) {
					t.Errorf("%d requests, but %v attempts", len(requests), attempts)
				}
				for _, r := range requests {
					if r.ID() != requests[0].ID() || string(r.Body) != string(requests[0].Body) {
						t.Errorf("an attempt differs from the first: %s %s", r.ID(), r.Body)
					}
				}
				if ada.Get(alertsPath + "/" + id).Object()["enabled"] != true {
					t.Error("the alert is disabled")
				}
				ada.wantEvents("firing pdf")
			})
		}
	})
}

// TestNeverAnswers takes the timeout of an attempt.
func TestNeverAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"), setup{backoff: quick[:0]})
	ada := w.org("acme")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	id := ada.fire("http://" + l.Addr().String())
	w.Work()
	if got := ada.outcome(id); !strings.HasPrefix(got, "failed after 1: <nil> ") || !strings.Contains(got, "timed out") {
		t.Errorf("got %q", got)
	}
}

// TestWaitsForItsTime: a delivery between two attempts, or one with a Retry-After,
// is not sent before it is due, even if a crash started its job early.
func TestWaitsForItsTime(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{backoff: []time.Duration{30 * time.Minute}}) // longer than the test
		ada := w.org("acme")
		w.Work()
		for _, c := range []struct {
			answer   http.HandlerFunc
			from, to time.Duration
		}{
			{notifytest.Answering(500), 27 * time.Minute, 33 * time.Minute},
			{notifytest.Answering(429, "Retry-After", "3600"), time.Hour, time.Hour},
			{notifytest.Answering(503, "Retry-After", time.Now().Add(2*time.Hour).UTC().Format(http.TimeFormat)), 119 * time.Minute, 2 * time.Hour},
		} {
			hook := notifytest.Receive(t, c.answer)
			id := ada.fire(hook.URL)
			var d object
			apptest.Eventually(t, "the first attempt", func() bool {
				d = ada.deliveries(id)[0]
				return d["status"] == "retrying"
			})

			attempted, err := time.Parse(time.RFC3339, d["attempted_at"].(string))
			if err != nil {
				t.Fatal(err)
			}
			next, err := time.Parse(time.RFC3339, d["next_attempt_at"].(string))
			if wait := next.Sub(attempted); err != nil || wait < c.from-time.Millisecond || wait > c.to+time.Millisecond {
				t.Errorf("next attempt after %v, want %v to %v", wait, c.from, c.to)
			}
			if d["attempts"] != 1.0 || d["detail"] == nil {
				t.Errorf("delivery %v", d)
			}
			if err := w.alerts.Deliver(t.Context(), d["id"].(string)); err == nil || !strings.HasPrefix(err.Error(), "snoozed for ") {
				t.Errorf("started early: %v, want it to wait", err)
			}
			if n := len(hook.Requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		}
	})
}

// TestRetryAfter: the next attempt waits for the target's Retry-After.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{backoff: quick})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(429, "Retry-After", "1"), notifytest.Answering(200))
		id := ada.fire(hook.URL)
		w.Work()
		if got, want := ada.outcome(id), "delivered after 2: 200 HTTP 200 OK"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		requests := hook.Requests()
		if wait := requests[1].At.Sub(requests[0].At); wait < 900*time.Millisecond { // by another clock
			t.Errorf("the second attempt came after %v, want a second at least", wait)
		}
	})
}

// TestGone: a target that responds with 410 gets no more notifications.
func TestGone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{backoff: quick, workers: 1})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(410))
		for _, skill := range []string{"csv", "xls", "doc"} {
			ada.sessions(skill, repeat(0, 5)...)
		}
		id := ada.fire(hook.URL) // about four skills
		w.Work()
		w.Settle()
		alert := ada.Get(alertsPath + "/" + id).Object()
		if alert["enabled"] != false || alert["disabled_reason"] != "The target answered that it is gone (410)" {
			t.Errorf("alert %v, want it disabled and to say why", alert)
		}
		const disabled = `audit_entries WHERE action = 'alerts.rule.disable' AND actor = 'system' AND org_id = $1 AND target_id = $2`
		if n := w.Count(disabled, ada.Org.ID, id); n != 1 {
			t.Errorf("%d audit entries say that the service disabled it, want 1", n)
		}
		got := map[string]int{}
		for _, d := range ada.deliveries(id) {
			got[fmt.Sprintf("%v after %v: %v", d["status"], d["attempts"], d["detail"])]++
		}
		// With one worker, deliveries queued behind the first are not sent.
		want := map[string]int{"failed after 1: HTTP 410 Gone": 1, "failed after 0: not sent: the alert is disabled": 3}
		if diff := cmp.Diff(want, got); diff != "" || len(hook.Requests()) != 1 {
			t.Errorf("%d sent, deliveries (-want +got):\n%s", len(hook.Requests()), diff)
		}
		back := ada.Do(http.MethodPatch, alertsPath+"/"+id, object{"enabled": true}).Want(http.StatusOK).Object()
		if back["enabled"] != true || back["disabled_reason"] != nil {
			t.Errorf("alert %v, want it back", back)
		}
	})
}

// TestGoneAfterAMove: a 410 of the old target does not disable the new one.
func TestGoneAfterAMove(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ids := make(chan string, 1)
		hook := notifytest.Receive(t, func(rw http.ResponseWriter, _ *http.Request) {
			body := object{"config": object{"webhook_url": hookURL}}
			ada.Do(http.MethodPatch, alertsPath+"/"+<-ids, body).Want(http.StatusOK)
			rw.WriteHeader(http.StatusGone)
		})
		id := ada.fire(hook.URL)
		ids <- id
		w.Work()
		if got, want := ada.outcome(id), "failed after 1: 410 HTTP 410 Gone"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if ada.Get(alertsPath + "/" + id).Object()["enabled"] != true {
			t.Error("the alert is disabled")
		}
	})
}

// TestPrivateTarget is refused when it is dialled, whatever its host name.
func TestPrivateTarget(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{guarded: true, backoff: quick})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(200))
		literal := ada.fire(hook.URL)
		name := ada.fire(strings.Replace(hook.URL, "127.0.0.1", "localhost", 1))
		const want = "failed after 1: <nil> refused: 127.0.0.1 is a loopback address; set --allow-private-targets to allow it"
		w.Work()
		if got := ada.outcome(literal); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		const named = "failed after 1: <nil> refused: localhost resolves to a loopback address; set --allow-private-targets to allow it"
		if got := ada.outcome(name); got != named {
			t.Errorf("got %q, want %q", got, named)
		}
		if got := ada.Post(alertsPath+"/"+name+"/test", nil).Want(http.StatusOK).Body; strings.Contains(string(got), "127.0.0.1") {
			t.Errorf("the test reveals the address behind a name: %s", got)
		}
		test := ada.Post(alertsPath+"/"+literal+"/test", nil).Want(http.StatusOK).Object()["delivery"].(object)
		if test["status"] != "failed" || test["attempts"] != 1.0 {
			t.Errorf("test %v, want it failed", test)
		}
		if w.guard.count() != 0 || len(hook.Requests()) != 0 {
			t.Errorf("%d addresses were dialled, %d requests came", w.guard.count(), len(hook.Requests()))
		}
	})
}

// TestDisabledBeforeItWasSent: a disabled alert sends no pending notifications.
func TestDisabledBeforeItWasSent(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(200))
		id := ada.fire(hook.URL)
		ada.Do(http.MethodPatch, alertsPath+"/"+id, object{"enabled": false}).Want(http.StatusOK)
		w.Work()
		w.Settle()
		d := ada.deliveries(id)[0]
		if d["status"] != "failed" || d["attempts"] != 0.0 || d["detail"] != "not sent: the alert is disabled" ||
			len(hook.Requests()) != 0 {
			t.Errorf("delivery %v and %d requests, want none", d, len(hook.Requests()))
		}
	})
}

// TestInOrder: "resolved" arrives after "firing", even if the first attempt of
// "firing" failed.
func TestInOrder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{backoff: []time.Duration{500 * time.Millisecond, 500 * time.Millisecond}})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(500), notifytest.Answering(500), notifytest.Answering(200))
		id := ada.fire(hook.URL)
		ada.sessions("pdf", repeat(1, 95)...)
		w.evaluate(ada, 2)
		ada.wantEvents("firing pdf", "resolved pdf")
		w.Work()
		var got []string
		for _, r := range hook.Await(4) {
			got = append(got, r.Object(t)["status"].(string))
		}
		if diff := cmp.Diff([]string{"firing", "firing", "firing", "resolved"}, got); diff != "" {
			t.Errorf("notices (-want +got):\n%s", diff)
		}
		w.Settle()
		for _, d := range ada.deliveries(id) {
			if d["status"] != "delivered" {
				t.Errorf("delivery %v", d)
			}
		}
	})
}

// TestNotBehindTheLost: a delivery does not wait forever for one whose job was
// lost.
func TestNotBehindTheLost(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(200))
		id := ada.fire(hook.URL)
		ada.sessions("pdf", repeat(1, 95)...)
		w.evaluate(ada, 2)
		deliveries := ada.deliveries(id)
		resolved, firing := deliveries[0]["id"].(string), deliveries[1]["id"].(string)
		if err := w.alerts.Deliver(t.Context(), resolved); err == nil || err.Error() != "snoozed for 1s" {
			t.Errorf("got %v, want it to wait", err)
		}
		w.Exec(`UPDATE alert_deliveries SET created_at = created_at - $2 WHERE id = $1`, firing, (2 * time.Hour).Microseconds())
		if err := w.alerts.Deliver(t.Context(), resolved); err != nil {
			t.Error(err)
		}
		if got := hook.Requests(); len(got) != 1 || got[0].Object(t)["status"] != "resolved" {
			t.Errorf("%d notices came, want the second", len(got))
		}
	})
}

func TestDeletedOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		hook := notifytest.Receive(t, notifytest.Answering(200))
		id := ada.fire(hook.URL)
		delivery := ada.deliveries(id)[0]["id"].(string)
		w.CloseOrg(ada.Org.ID)
		if err := w.alerts.Deliver(t.Context(), delivery); err != nil || len(hook.Requests()) != 0 {
			t.Errorf("%d requests; %v", len(hook.Requests()), err)
		}
	})
}
