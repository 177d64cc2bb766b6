package events_test

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/events/eventstest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
)

// TestMain lets more tests run at once than there are processors: they mostly wait
// for databases and each other.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

type object = apptest.Object

const path = "/api/v1/event-webhooks"

// world has an organisation with a registry.
type world struct {
	*registrytest.World
	events *events.Service
	ada    *registrytest.Client
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{World: registrytest.New(t, db)}
	w.events = eventstest.Register(w.World.World)
	w.events.Mount(w.API)
	w.Auth.Jobs = w.Queue
	(&members.Service{DB: db, Auth: w.Auth, PublicURL: apptest.PublicURL}).Mount(w.API)
	w.ada = w.Org("acme", access.Team)
	return w
}

var quick = delivery.Backoff{time.Millisecond, time.Millisecond, time.Millisecond}

// hook makes a webhook of some types, and returns the answer.
func (w *world) hook(url string, types ...events.Type) object {
	w.T.Helper()
	return w.ada.Post(path, object{"url": url, "events": types}).Want(http.StatusCreated).Object()
}

func (w *world) deliveries(id any) []object {
	w.T.Helper()
	return w.ada.Get(fmt.Sprint(path, "/", id, "/deliveries?per_page=100")).Want(http.StatusOK).List("deliveries")
}

// ended waits until no delivery of a webhook is open, and returns them, newest first.
func (w *world) ended(id any) (all []object) {
	w.T.Helper()
	apptest.Eventually(w.T, "the end of the deliveries", func() bool {
		all = w.deliveries(id)
		return len(all) > 0 && !slices.ContainsFunc(all, func(d object) bool { return d["status"] == "pending" || d["status"] == "retrying" })
	})
	return all
}

func TestManage(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		const secretURL = "https://ci.example.org/hooks/very-secret-path?token=abcdefgh"
		made := w.hook(secretURL, events.MemberRemoved, events.VersionPublished, events.MemberRemoved)
		apptest.WantKeys(t, made, "id", "url", "events", "paused", "paused_reason", "created_by", "created_at", "updated_at", "signing_secret")
		if err := notify.CheckSecret(made["signing_secret"].(string)); err != nil {
			t.Error(err)
		}
		one := fmt.Sprint(path, "/", made["id"])
		got := w.ada.Get(one).Want(http.StatusOK).Object()
		want := object{
			"id": made["id"], "url": "https://ci.example.org/…", "events": []any{"version.published", "member.removed"}, "paused": false,
			"paused_reason": nil, "created_by": w.ada.User.ID, "created_at": made["created_at"], "updated_at": made["updated_at"],
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("webhook (-want +got):\n%s", diff)
		}
		w.ada.Get(path).Want(http.StatusOK).
			WantBody(object{"event_webhooks": []object{want}, "pagination": object{"page": 1, "per_page": 20, "total": 1}})
		changed := w.ada.Do(http.MethodPatch, one, object{"paused": true, "events": []string{"alert.fired"}}).Want(http.StatusOK).Object()
		if changed["paused"] != true || fmt.Sprint(changed["events"]) != "[alert.fired]" || changed["url"] != "https://ci.example.org/…" {
			t.Errorf("changed to %v", changed)
		}
		w.ada.Do(http.MethodPatch, one, object{"url": "https://other.example.org/x"}).Want(http.StatusOK)
		if tables := w.TablesWith("very-secret-path"); len(tables) > 0 {
			t.Errorf("the URL is in clear text in %v", tables)
		}
		if tables := w.TablesWith(made["signing_secret"].(string)); len(tables) > 0 {
			t.Errorf("the secret is in clear text in %v", tables)
		}
		if log := w.Logged.String(); strings.Contains(log, "very-secret-path") {
			t.Errorf("the URL was logged:\n%s", log)
		}
		w.ada.Do(http.MethodDelete, one, nil).Want(http.StatusNoContent)
		w.ada.Get(one).WantError(http.StatusNotFound, "Event webhook not found")
		for _, action := range []string{"create", "change", "delete"} {
			if w.Count("audit_entries WHERE action = $1", "events.webhook."+action) == 0 {
				t.Errorf("%s is not in the audit log", action)
			}
		}
	})
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	ok := []string{"alert.fired"}
	for _, c := range []struct {
		body        object
		field, part string
	}{
		{object{"events": ok}, "url", "required"},
		{object{"url": "", "events": ok}, "url", "must be"},
		{object{"url": "ftp://ci.example.org", "events": ok}, "url", "http"},
		{object{"url": "https://user:secret@ci.example.org", "events": ok}, "url", ""},
		{object{"url": "https://ci.example.org/" + strings.Repeat("x", 2048), "events": ok}, "url", "2048"},
		{object{"url": 7, "events": ok}, "url", ""},
		{object{"url": "https://ci.example.org"}, "events", "required"},
		{object{"url": "https://ci.example.org", "events": []string{}}, "events", "at least one of version.published"},
		{object{"url": "https://ci.example.org", "events": []string{"version.published", "test"}}, "events", "version.rolled_back"},
		{object{"url": "https://ci.example.org", "events": []string{"version.*"}}, "events", "version.withdrawn"},
		{object{"url": "https://ci.example.org", "events": "alert.fired"}, "events", ""},
	} {
		w.ada.Post(path, c.body).WantIssueWith(c.field, c.part)
	}
	if n := w.Count("event_webhooks"); n != 0 {
		t.Errorf("%d are stored", n)
	}
	made := w.hook("http://127.0.0.1:1/x", events.AlertFired)
	w.ada.Do(http.MethodPatch, fmt.Sprint(path, "/", made["id"]), object{"events": []string{}}).WantIssueWith("events", "at least one")
	w.ada.Do(http.MethodPatch, fmt.Sprint(path, "/", made["id"]), object{"url": "x"}).WantIssueWith("url", "")
	for range 19 {
		w.hook("https://ci.example.org", events.AlertFired)
	}
	w.ada.Post(path, object{"url": "https://ci.example.org", "events": ok}).
		WantErrorWith(http.StatusConflict, "20 event webhooks, the maximum")

	// Only administrators, and only their own.
	member := w.Member(w.ada.Org, access.Member)
	stranger := w.Org("other", access.Team)
	one := fmt.Sprint(path, "/", made["id"])
	for _, r := range []struct{ method, path string }{
		{"POST", path},
		{"GET", path},
		{"GET", one},
		{"PATCH", one},
		{"DELETE", one},
		{"POST", one + "/test"},
		{"POST", one + "/rotate-secret"},
		{"GET", one + "/deliveries"},
		{"POST", one + "/deliveries/x/replay"},
	} {
		member.Do(r.method, r.path, object{"url": "https://ci.example.org", "events": ok}).Want(http.StatusForbidden)
		if r.path != path {
			stranger.Do(r.method, r.path, object{"paused": true}).WantError(http.StatusNotFound, "Event webhook not found")
		}
	}
}

// TestVersions shows that each change of a version arrives once.
func TestVersions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		h := eventstest.Subscribe(t, w.events, w.ada.Org.ID)
		stranger := eventstest.Subscribe(t, w.events, w.Org("other", access.Team).Org.ID)

		id := w.ada.Made("pdf", "1.0.0", registrytest.Skill(t, "One."))
		e := h.AwaitEvent(events.VersionPublished, 1)
		apptest.WantKeys(t, e, "id", "type", "timestamp", "organisation_id", "url", "data")
		if e["organisation_id"] != w.ada.Org.ID || e["url"] != apptest.PublicURL+"/registry/"+id {
			t.Errorf("event %v", e)
		}
		if at, err := time.Parse("2006-01-02T15:04:05.000Z", e["timestamp"].(string)); err != nil || time.Since(at) > time.Hour {
			t.Errorf("timestamp %v", e["timestamp"])
		}
		data := e["data"].(object)
		want := object{
			"entry_id": id, "entry": "pdf", "entry_type": "skill", "version": "1.0.0", "content_hash": data["content_hash"], "source": "cli",
			"gate_id": nil, "current": true, "actor": object{"kind": "key", "user_id": w.ada.User.ID, "email": w.ada.User.Email},
		}
		if diff := cmp.Diff(want, data); diff != "" {
			t.Errorf("data (-want +got):\n%s", diff)
		}

		w.ada.Pushed(id, "1.1.0", registrytest.Skill(t, "Two."))
		w.ada.Push(id, "1.1.0", registrytest.Skill(t, "Two.")) // there already: no event
		w.ada.Post(registrytest.EntryPath(id)+"/rollback", object{"reason": "worse"}).Want(http.StatusOK)
		data = h.Only(events.VersionRolledBack)
		if data["from"] != "1.1.0" || data["version"] != "1.0.0" || data["content_of"] != "1.0.0" || data["reason"] != "worse" || data["undone"] != false {
			t.Errorf("rolled back: %v", data)
		}
		w.ada.Post(registrytest.EntryPath(id)+"/rollback/undo", object{}).Want(http.StatusOK)
		if data = h.AwaitEvent(events.VersionRolledBack, 2)["data"].(object); data["undone"] != true || data["version"] != "1.1.0" || data["reason"] != nil {
			t.Errorf("undone: %v", data)
		}
		w.ada.Post(registrytest.VersionPath(id, "1.1.0")+"/withdraw", object{"reason": "unsafe"}).Want(http.StatusOK)
		data = h.Only(events.VersionWithdrawn)
		if data["version"] != "1.1.0" || data["reason"] != "unsafe" || data["current"] != false {
			t.Errorf("withdrawn: %v", data)
		}
		h.AwaitEvent(events.VersionRolledBack, 3) // it was current

		// A push that fails has no event.
		w.ada.Push(id, "1.0.0", registrytest.Skill(t, "Other.")).Want(http.StatusConflict)
		w.Settle()
		var got []string
		for _, e := range h.Events() {
			got = append(got, e["type"].(string))
		}
		slices.Sort(got)
		all := []string{
			"version.published", "version.published", "version.rolled_back", "version.rolled_back", "version.rolled_back", "version.withdrawn",
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if len(stranger.Requests()) > 0 {
			t.Error("another organisation was told")
		}
	})
}

func TestMemberRemoved(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		w.events.SetBackoff(quick)
		h := eventstest.Subscribe(t, w.events, w.ada.Org.ID)
		eve := w.Member(w.ada.Org, access.AdminRole)
		w.ada.Do(http.MethodDelete, "/api/v1/members/"+eve.User.ID, nil).Want(http.StatusNoContent)
		data := h.Only(events.MemberRemoved)
		if data["user_id"] != eve.User.ID || data["email"] != eve.User.Email || data["role"] != "admin" {
			t.Errorf("removed: %v", data)
		}
		if who := data["actor"].(object); who["user_id"] != w.ada.User.ID {
			t.Errorf("removed by %v", who)
		}

		// A command on the server has no queue: the server finds the delivery.
		bob := w.Member(w.ada.Org, access.Member)
		operator := &auth.Service{DB: db, Log: w.Log}
		if _, err := operator.RemoveByOperator(t.Context(), w.ada.Org.ID, auth.Removal{UserID: bob.User.ID}); err != nil {
			t.Fatal(err)
		}
		w.Settle()
		if n := len(h.Events()); n != 1 {
			t.Errorf("%d events before the dispatch", n)
		}
		for range 2 {
			if err := w.events.Dispatch(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if data := h.AwaitEvent(events.MemberRemoved, 2)["data"].(object); data["user_id"] != bob.User.ID {
			t.Errorf("removed: %v", data)
		}
		w.Settle()
		if n := len(h.Requests()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}

// TestNobodyWants: without a webhook nothing is written.
func TestNobodyWants(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		id := w.ada.Made("pdf", "1.0.0", registrytest.Skill(t, "One."))
		w.hook("http://127.0.0.1:1/x", events.AlertFired)
		paused := w.hook("http://127.0.0.1:1/x", events.VersionPublished)
		w.ada.Do(http.MethodPatch, fmt.Sprint(path, "/", paused["id"]), object{"paused": true}).Want(http.StatusOK)
		w.ada.Pushed(id, "1.1.0", registrytest.Skill(t, "Two."))
		if n := w.Count("event_records") + w.Count("event_deliveries"); n != 0 {
			t.Errorf("%d rows", n)
		}
		// A change that is rolled back takes its event with it.
		w.hook("http://127.0.0.1:1/x", events.VersionPublished)
		boom := errors.New("boom")
		err := db.InTx(t.Context(), func(tx *store.Tx) error {
			e := events.Event{OrgID: w.ada.Org.ID, Type: events.VersionPublished, Data: events.Data{}}
			if err := events.Emit(t.Context(), tx, w.Queue, e); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) || w.Count("event_records")+w.Count("event_deliveries") != 0 {
			t.Errorf("%v, and rows are left", err)
		}
	})
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	answering := notifytest.Answering
	huge := func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			_, _ = w.Write([]byte(strings.Repeat("very long answer ", 4096)))
		}
	}
	hangUp := func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	}
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, "no route %s\n\x1b[31m<script>", r.URL)
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.events.SetBackoff(quick)
		w.Work()
		id := w.ada.Made("pdf", "1.0.0", registrytest.Skill(t, "One."))
		for i, c := range []struct {
			name     string
			answers  []http.HandlerFunc
			want     string
			requests int
		}{
			{"200", []http.HandlerFunc{answering(200)}, "delivered after 1: 200 HTTP 200 OK", 1},
			{"500 then 200", []http.HandlerFunc{answering(500), answering(200)}, "delivered after 2: 200 HTTP 200 OK", 2},
			{"hangs up then 200", []http.HandlerFunc{hangUp, answering(200)}, "delivered after 2: 200 HTTP 200 OK", 2},
			{"503 for ever", []http.HandlerFunc{answering(503)}, "failed after 4: 503 HTTP 503 Service Unavailable", 4},
			{"400", []http.HandlerFunc{answering(400)}, "failed after 1: 400 HTTP 400 Bad Request", 1},
			{
				"redirect",
				[]http.HandlerFunc{answering(307, "Location", "/elsewhere"), answering(200)},
				"failed after 1: 307 HTTP 307 Temporary Redirect: redirects are not followed, set the final address", 1,
			},
			{"echo", []http.HandlerFunc{echo}, "failed after 1: 404 HTTP 404 Not Found: no route … [31m<script>", 1},
			{"huge", []http.HandlerFunc{huge}, "delivered after 1: 200 HTTP 200 OK: very long answer", 1},
		} {
			r := notifytest.Receive(t, c.answers...)
			hook := w.hook(r.URL+"/a-secret-path", events.VersionPublished)
			w.ada.Pushed(id, fmt.Sprintf("2.%d.0", i), registrytest.Skill(t, c.name))
			d := w.ended(hook["id"])[0]
			got := fmt.Sprintf("%v after %v: %v %v", d["status"], d["attempts"], d["response_status"], d["detail"])
			if !strings.HasPrefix(got, c.want) || len(got) > 300 {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
			requests := r.Requests()
			if len(requests) != c.requests {
				t.Errorf("%s: %d requests", c.name, len(requests))
			}
			for _, again := range requests {
				if again.ID() != requests[0].ID() || string(again.Body) != string(requests[0].Body) || again.ID() != d["event_id"] {
					t.Errorf("%s: attempts differ: %s %s", c.name, again.ID(), again.Body)
				}
			}
			w.ada.Do(http.MethodDelete, fmt.Sprint(path, "/", hook["id"]), nil).Want(http.StatusNoContent)
		}
		if n := w.Count("event_deliveries"); n != 0 {
			t.Errorf("%d deliveries of deleted webhooks are left", n)
		}
	})
}

// TestGone: a target that answers 410 is told nothing more.
func TestGone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		r := notifytest.Receive(t, notifytest.Answering(410))
		hook := w.hook(r.URL, events.VersionPublished)
		one := fmt.Sprint(path, "/", hook["id"])
		id := w.ada.Made("pdf", "1.0.0", registrytest.Skill(t, "One."))
		first := w.ended(hook["id"])[0]
		got := w.ada.Get(one).Want(http.StatusOK).Object()
		if got["paused"] != true || got["paused_reason"] != "The target answered that it is gone (410)" {
			t.Errorf("webhook %v", got)
		}
		if w.Count("audit_entries WHERE action = 'events.webhook.pause' AND actor = 'system'") != 1 {
			t.Error("the pause is not in the audit log")
		}
		w.ada.Pushed(id, "1.1.0", registrytest.Skill(t, "Two."))
		w.Settle()
		if n := len(r.Requests()); n != 1 {
			t.Errorf("%d requests after 410", n)
		}
		replay := fmt.Sprint(one, "/deliveries/", first["id"], "/replay")
		w.ada.Post(replay, nil).WantErrorWith(http.StatusConflict, "paused")
		if got = w.ada.Do(http.MethodPatch, one, object{"paused": false}).Want(http.StatusOK).Object(); got["paused_reason"] != nil {
			t.Errorf("resumed: %v", got)
		}
	})
}

func TestReplay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.events.SetBackoff(delivery.Backoff{})
		w.Work()
		r := notifytest.Receive(t, notifytest.Answering(500), notifytest.Answering(200))
		hook := w.hook(r.URL, events.VersionPublished)
		one := fmt.Sprint(path, "/", hook["id"])
		w.ada.Made("pdf", "1.0.0", registrytest.Skill(t, "One."))
		failed := w.ended(hook["id"])[0]
		if failed["status"] != "failed" {
			t.Fatalf("delivery %v", failed)
		}
		again := w.ada.Post(fmt.Sprint(one, "/deliveries/", failed["id"], "/replay"), nil).Want(http.StatusAccepted).Field("delivery")
		if again["status"] != "pending" || again["replay_of"] != failed["id"] || again["event_id"] != failed["event_id"] {
			t.Errorf("replay %v", again)
		}
		all := w.ended(hook["id"])
		if len(all) != 2 || all[0]["id"] != again["id"] || all[0]["status"] != "delivered" || all[1]["status"] != "failed" {
			t.Errorf("deliveries %v", all)
		}
		if got := r.Requests(); len(got) != 2 || got[0].ID() != got[1].ID() || string(got[0].Body) != string(got[1].Body) {
			t.Errorf("%d requests that differ", len(got))
		}
		if w.Count("audit_entries WHERE action = 'events.delivery.replay'") != 1 {
			t.Error("the replay is not in the audit log")
		}

		// A test cannot be replayed, nor a delivery of another webhook or organisation.
		tested := w.ada.Post(one+"/test", nil).Want(http.StatusOK).Field("delivery")
		w.ada.Post(fmt.Sprint(one, "/deliveries/", tested["id"], "/replay"), nil).WantErrorWith(http.StatusConflict, "send another test")
		other := w.hook(r.URL, events.AlertFired)
		w.ada.Post(fmt.Sprint(path, "/", other["id"], "/deliveries/", failed["id"], "/replay"), nil).WantError(http.StatusNotFound, "Delivery not found")
		eve := w.Org("other", access.Team)
		theirs := eve.Post(path, object{"url": r.URL, "events": []string{"alert.fired"}}).Want(http.StatusCreated).Text("id")
		eve.Post(fmt.Sprint(path, "/", theirs, "/deliveries/", failed["id"], "/replay"), nil).WantError(http.StatusNotFound, "Delivery not found")
		eve.Post(fmt.Sprint(one, "/deliveries/", failed["id"], "/replay"), nil).WantError(http.StatusNotFound, "Event webhook not found")

		// What is older than the retention goes.
		w.Exec(`UPDATE event_records SET occurred_at = occurred_at - $1`, (31 * 24 * time.Hour).Microseconds())
		if err := w.events.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.ada.Post(fmt.Sprint(one, "/deliveries/", failed["id"], "/replay"), nil).WantError(http.StatusConflict, "The event is no longer kept")
		w.Exec(`UPDATE event_deliveries SET created_at = created_at - $1`, (31 * 24 * time.Hour).Microseconds())
		if err := w.events.Sweep(t.Context()); err != nil || w.Count("event_deliveries") != 0 {
			t.Errorf("%v, and %d deliveries are left", err, w.Count("event_deliveries"))
		}
	})
}

// TestSignature verifies with the library that receivers use. After a rotation both
// secrets verify, and a day later only the new one.
func TestSignature(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		r := notifytest.Receive(t, notifytest.Answering(200))
		hook := w.hook(r.URL, events.AlertFired)
		one, old := fmt.Sprint(path, "/", hook["id"]), hook["signing_secret"].(string)
		verify := func(what string, want map[string]bool) {
			t.Helper()
			d := w.ada.Post(one+"/test", nil).Want(http.StatusOK).Field("delivery")
			if d["status"] != "delivered" || d["event_id"] != nil || d["event_type"] != "test" {
				t.Errorf("%s: delivery %v", what, d)
			}
			requests := r.Requests()
			last := requests[len(requests)-1]
			if last.ID() != d["id"] || last.Object(t)["type"] != "test" {
				t.Errorf("%s: %s", what, last.Body)
			}
			for secret, good := range want {
				verifier, err := standardwebhooks.NewWebhook(secret)
				if err != nil {
					t.Fatal(err)
				}
				if err := verifier.Verify(last.Body, last.Header); (err == nil) != good {
					t.Errorf("%s: %v, want it to verify: %t", what, err, good)
				}
				late := last.Header.Clone()
				late.Set(standardwebhooks.HeaderWebhookTimestamp, "1")
				if verifier.Verify(last.Body, late) == nil || verifier.Verify(append(last.Body, ' '), last.Header) == nil {
					t.Errorf("%s: a changed message verifies", what)
				}
			}
		}
		verify("first secret", map[string]bool{old: true})
		a := w.ada.Post(one+"/rotate-secret", nil).Want(http.StatusOK)
		verify("after the rotation", map[string]bool{old: true, a.Text("signing_secret"): true})
		w.Exec(`UPDATE event_webhooks SET old_secret_until = old_secret_until - $1`, (24 * time.Hour).Microseconds())
		verify("a day later", map[string]bool{old: false, a.Text("signing_secret"): true})
	})
}

// TestPrivateTargets are refused at dial time, as those of alerts are.
func TestPrivateTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, "sqlite"))
	client, err := outbound.New(outbound.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w.events.Sender, err = notify.New(notify.Options{HTTP: client}); err != nil {
		t.Fatal(err)
	}
	w.events.AllowPrivate = false
	r := notifytest.Receive(t, notifytest.Answering(200))
	hook := w.hook(r.URL, events.VersionPublished)
	if warnings, _ := hook["warnings"].([]any); len(warnings) != 1 {
		t.Errorf("warnings: %v", hook["warnings"])
	}
	d := w.ada.Post(fmt.Sprint(path, "/", hook["id"], "/test"), nil).Want(http.StatusOK).Field("delivery")
	if d["status"] != "failed" || d["response_status"] != nil || len(r.Requests()) != 0 {
		t.Errorf("delivery %v, %d requests", d, len(r.Requests()))
	}
}

// TestCrashRepeats: a job that runs twice, or early, sends once.
func TestCrashRepeats(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		r := notifytest.Receive(t, notifytest.Answering(503), notifytest.Answering(200))
		hook := w.hook(r.URL, events.VersionPublished)
		w.ada.Made("pdf", "1.0.0", registrytest.Skill(t, "One."))
		id := w.deliveries(hook["id"])[0]["id"].(string)
		if err := w.events.Deliver(t.Context(), id); err == nil {
			t.Error("503 is no error")
		}
		if err := w.events.Deliver(t.Context(), id); err == nil || !strings.HasPrefix(err.Error(), "snoozed for ") {
			t.Errorf("early: %v", err)
		}
		w.Exec(`UPDATE event_deliveries SET next_attempt_at = 1`)
		for range 2 {
			if err := w.events.Deliver(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if n := len(r.Requests()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		// Paused meanwhile: it is not sent.
		w.ada.Made("csv", "1.0.0", registrytest.Skill(t, "One."))
		w.ada.Do(http.MethodPatch, fmt.Sprint(path, "/", hook["id"]), object{"paused": true}).Want(http.StatusOK)
		if err := w.events.Deliver(t.Context(), w.deliveries(hook["id"])[0]["id"].(string)); err != nil {
			t.Error(err)
		}
		if d := w.deliveries(hook["id"])[0]; d["status"] != "failed" || d["detail"] != "not sent: the webhook is paused" || len(r.Requests()) != 2 {
			t.Errorf("delivery %v", d)
		}
	})
}

func TestDeletedOrganisation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		r := notifytest.Receive(t, notifytest.Answering(200))
		hook := w.hook(r.URL, events.VersionPublished)
		w.ada.Made("pdf", "1.0.0", registrytest.Skill(t, "One."))
		id := w.deliveries(hook["id"])[0]["id"].(string)
		w.CloseOrg(w.ada.Org.ID)
		if err := w.events.Deliver(t.Context(), id); err != nil || len(r.Requests()) != 0 {
			t.Errorf("%d requests; %v", len(r.Requests()), err)
		}
	})
}
