package alerts_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
)

// person adds a member with an address.
func (w *world) person(o auth.Organisation, email string) auth.User {
	w.T.Helper()
	u, err := w.Auth.CreateUser(w.T.Context(), auth.NewUser{OrgID: o.ID, Email: email, Name: "x", Role: access.Viewer})
	if err != nil {
		w.T.Fatal(err)
	}
	return u
}

// subjects lists who got which mails, e.g. "<ada@example.org> [firing]".
func subjects(box *notifytest.Mailbox) []string {
	all := []string{}
	for i := range box.Count() {
		mail, _ := box.Mail(i)
		status, _, _ := strings.Cut(mail.Header.Get("Subject"), " ")
		all = append(all, mail.Header.Get("To")+" "+status)
	}
	slices.Sort(all)
	return all
}

func wantMails(t *testing.T, box *notifytest.Mailbox, want ...string) {
	t.Helper()
	apptest.Eventually(t, strings.Join(want, ", "), func() bool { return box.Count() >= len(want) })
	if diff := cmp.Diff(want, subjects(box)); diff != "" {
		t.Errorf("mails (-want +got):\n%s", diff)
	}
}

var toOwners = object{"type": "pass_rate_below", "channel": "owners", "config": object{}}

// TestOwnersAreTold: an alert without an address of its own sends a mail to each person
// who owns the skill when it fires, in teams too, and each is retried alone.
func TestOwnersAreTold(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		box := notifytest.OpenMailbox(t, 1)
		w := newWorld(t, db, setup{guarded: true, smtpURL: box.URL, mailFrom: "alerts@whetstone.example.org", backoff: quick})
		ada, eve := w.org("acme"), w.org("other")
		bob, cleo := w.person(ada.Org, "bob@example.org"), w.person(ada.Org, "cleo@example.org")
		w.person(eve.Org, "spy@example.org")
		owned := &teams.Service{DB: db, Auth: w.Auth, Registry: w.alerts.Registry}
		caller := access.Caller{OrgID: ada.Org.ID, UserID: ada.User.ID}
		docs, err := owned.Create(t.Context(), caller, "Docs", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := owned.SetMembers(t.Context(), ada.Org.ID, docs.ID, []string{bob.ID, cleo.ID}); err != nil {
			t.Fatal(err)
		}
		entry := ada.publish("", "pdf", "1.0")
		if _, err := owned.SetOwners(t.Context(), ada.Org.ID, entry, teams.Selection{Users: []string{bob.ID}, Teams: []string{docs.ID}}); err != nil {
			t.Fatal(err)
		}

		made := ada.Post(alertsPath, toOwners).Want(http.StatusCreated).Object()
		if made["channel"] != "owners" || len(made["config"].(object)) != 0 || made["warnings"] != nil {
			t.Errorf("made %v", made)
		}
		id := made["id"].(string)
		w.Work()
		ada.sessions("pdf", repeat(0.2, 5)...)
		wantMails(t, box, "<bob@example.org> [firing]", "<cleo@example.org> [firing]")
		apptest.Eventually(t, "the end of both deliveries", func() bool {
			return w.Count("alert_deliveries WHERE status = 'delivered'") == 2
		})
		attempts, recipients := 0.0, []string{}
		for _, d := range ada.deliveries(id) {
			attempts += d["attempts"].(float64)
			recipients = append(recipients, d["recipient_id"].(string))
		}
		slices.Sort(recipients)
		if want := slices.Sorted(slices.Values([]string{bob.ID, cleo.ID})); attempts != 3 || !slices.Equal(recipients, want) {
			t.Errorf("%v attempts for %v, want 3 for %v", attempts, recipients, want)
		}

		// Who is no member any more is not told that it is resolved.
		if _, err := w.Auth.RemoveByOperator(t.Context(), ada.Org.ID, auth.Removal{UserID: cleo.ID}); err != nil {
			t.Fatal(err)
		}
		ada.sessions("pdf", repeat(1, 95)...)
		apptest.Eventually(t, "an evaluation", func() bool { return w.Count("alert_states WHERE good_streak = 1") == 1 })
		w.evaluate(ada, 1)
		wantMails(t, box, "<bob@example.org> [firing]", "<bob@example.org> [resolved]", "<cleo@example.org> [firing]")
	})
}

// TestNobodyOwns: without owners the person who made the alert is told, and a test goes to
// whoever asks for it. A machine gets no mail.
func TestNobodyOwns(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		box := notifytest.OpenMailbox(t, 0)
		w := newWorld(t, db, setup{guarded: true, smtpURL: box.URL, mailFrom: "alerts@whetstone.example.org", backoff: quick})
		ada := w.org("acme")
		bob := w.member(ada.Org, access.Member)
		ada.sessions("pdf", repeat(0, 5)...)
		id := bob.alert(toOwners)
		w.evaluate(ada, 1)
		w.Work()
		to := "<" + bob.User.Email + ">"
		wantMails(t, box, to+" [firing]")
		bob.outcome(id)

		other := w.member(ada.Org, access.Member)
		tested := other.Post(alertsPath+"/"+id+"/test", nil).Want(http.StatusOK)
		if got := tested.Text("delivery", "status"); got != "delivered" || tested.Text("delivery", "recipient_id") != other.User.ID {
			t.Errorf("test: %s", tested.Body)
		}
		if got := subjects(box); !slices.Contains(got, "<"+other.User.Email+"> [test]") {
			t.Errorf("mails %v", got)
		}

		_, _, raw, err := w.Auth.IssueKey(t.Context(), auth.Holder{Role: access.Member}, auth.NewKey{OrgID: ada.Org.ID, Name: "CI"})
		if err != nil {
			t.Fatal(err)
		}
		machine := &client{&apptest.Caller{T: t, World: w.World, Org: ada.Org, Key: raw}, w}
		refused := machine.Post(alertsPath+"/"+id+"/test", nil).Want(http.StatusOK)
		if want := "not sent: this is no person of the organisation, or no longer"; refused.Text("delivery", "detail") != want {
			t.Errorf("test by a machine: %s", refused.Body)
		}

		// Another channel, and back without an address.
		path := alertsPath + "/" + id
		bob.Do(http.MethodPatch, path, object{"channel": "email"}).WantIssueWith("config", "config is required when the channel changes")
		bob.Do(http.MethodPatch, path, object{"channel": "email", "config": object{"email": "x@example.org"}}).Want(http.StatusOK)
		changed := bob.Do(http.MethodPatch, path, object{"channel": "owners"}).Want(http.StatusOK).Object()
		if changed["channel"] != "owners" || len(changed["config"].(object)) != 0 {
			t.Errorf("changed %v", changed)
		}
	})
}

// TestChannelChanged: a mail to owners that waits is not sent to another channel.
func TestChannelChanged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{})
		ada := w.org("acme")
		ada.sessions("pdf", repeat(0, 5)...)
		made := ada.Post(alertsPath, toOwners).Want(http.StatusCreated)
		if warnings := made.Object()["warnings"].([]any); len(warnings) != 1 || !strings.Contains(warnings[0].(string), "No mail server is configured") {
			t.Errorf("warnings %v", warnings)
		}
		id := made.Text("id")
		w.evaluate(ada, 1)
		ada.Do(http.MethodPatch, alertsPath+"/"+id, object{"channel": "email", "config": object{"email": "x@example.org"}}).Want(http.StatusOK)
		w.Work()
		apptest.Eventually(t, "the end of the delivery", func() bool { return ada.deliveries(id)[0]["status"] == "failed" })
		if got := ada.deliveries(id)[0]["detail"]; got != "not sent: the alert got another channel" {
			t.Errorf("detail %v", got)
		}
	})
}
