package members_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// withMail lets the service send mails by a server.
func (w world) withMail(smtpURL string) *members.Service {
	w.T.Helper()
	client, err := outbound.New(outbound.Options{})
	if err != nil {
		w.T.Fatal(err)
	}
	sender, err := notify.New(notify.Options{HTTP: client, SMTPURL: smtpURL, MailFrom: "Whetstone <no-reply@whetstone.example>"})
	if err != nil {
		w.T.Fatal(err)
	}
	s := w.members
	s.Jobs, s.Mailer, s.Secret = w.Queue, sender, []byte(strings.Repeat("s", 32))
	members.SetBackoff(s, delivery.Backoff{time.Millisecond, time.Millisecond})
	s.Register()
	return s
}

var link = regexp.MustCompile(regexp.QuoteMeta(apptest.PublicURL) + `/invite/(inv_[0-9A-Za-z]{43})`)

// mailOf is the mail of the newest invitation, as it is listed.
func mailOf(c *apptest.Caller) object {
	c.T.Helper()
	m, _ := c.Get(invitations).Want(http.StatusOK).List("invitations")[0]["mail"].(object)
	return m
}

// TestMail follows an invitation to the mailbox, past a server that is busy first; the
// link in the mail is the one that is shown, and works.
func TestMail(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		box := notifytest.OpenMailbox(t, 1)
		s := w.withMail(box.URL)
		ada := w.org("acme")
		made := ada.Post(invitations, object{"role": "admin", "email": "Bob@Example.org"}).Want(http.StatusCreated)
		apptest.WantKeys(t, made.Field("invitation")["mail"].(object), "status", "attempts", "detail", "attempted_at")
		if got := made.Text("invitation", "mail", "status"); got != "pending" {
			t.Errorf("the mail is %s", got)
		}
		w.Work()
		apptest.Eventually(t, "the mail", func() bool { return mailOf(ada)["status"] == "delivered" })
		if m := mailOf(ada); m["attempts"] != 2.0 || m["attempted_at"] == nil {
			t.Errorf("the mail is listed as %v", m)
		}
		mail, body := box.Mail(0)
		body = strings.ReplaceAll(body, "=\r\n", "") // soft line breaks
		id := made.Text("invitation", "id")
		for name, want := range map[string]string{
			"From": `"Whetstone" <no-reply@whetstone.example>`, "To": "<bob@example.org>", "Subject": "Invitation to acme on Whetstone",
			"Message-Id": "<" + id + "@whetstone.example>", "Auto-Submitted": "auto-generated",
		} {
			if got := mail.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		for _, want := range []string{"owner@acme.example invites you to join acme", "role admin", "works once"} {
			if !strings.Contains(body, want) {
				t.Errorf("%q is not in %q", want, body)
			}
		}
		found := link.FindStringSubmatch(body)
		if found == nil || found[1] != made.Text("token") {
			t.Fatalf("the link in the mail is %v, want that of %s; %q", found, made.Text("url"), body)
		}
		// The job may run twice: one mail.
		for range 2 {
			if err := members.SendMail(t.Context(), s, ada.Org.ID, id); err != nil {
				t.Error(err)
			}
		}
		if n := box.Count(); n != 1 {
			t.Errorf("%d mails, want 1", n)
		}
		if tables := w.TablesWith(found[1]); len(tables) > 0 || strings.Contains(w.Logged.String(), found[1]) {
			t.Errorf("the token is in the log, or in %v", tables)
		}
		joined := w.public().Post(acceptance, object{"token": found[1], "name": "Bob"}).Want(http.StatusCreated)
		if got := joined.Text("member", "email"); got != "bob@example.org" {
			t.Errorf("joined as %s", got)
		}
	})
}

// TestMailOnce: of several runs of the job at the same time, on several replicas, one
// sends the mail. The others wait for it to end.
func TestMailOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		box := notifytest.OpenMailbox(t, 0)
		s := w.withMail(box.URL)
		ada := w.org("acme")
		id, _ := invite(ada, object{"role": "member", "email": "bob@example.org"})
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { _ = members.SendMail(context.WithoutCancel(t.Context()), s, ada.Org.ID, id) })
		}
		wg.Wait()
		if m := mailOf(ada); m["status"] != "delivered" || m["attempts"] != 1.0 || box.Count() != 1 {
			t.Errorf("%d mails; listed as %v", box.Count(), m)
		}

		// A run that another one still holds sends nothing; one that crashed is repeated.
		id, _ = invite(ada, object{"role": "member", "email": "carl@example.org"})
		w.Exec("UPDATE invitation_mails SET leased_until = $1 WHERE invitation_id = $2", store.Micros(store.Now().Add(time.Minute)), id)
		if err := members.SendMail(t.Context(), s, ada.Org.ID, id); err == nil || !strings.Contains(err.Error(), "snoozed") || box.Count() != 1 {
			t.Errorf("%d mails, %v", box.Count(), err)
		}
		w.Exec("UPDATE invitation_mails SET leased_until = $1 WHERE invitation_id = $2", store.Micros(store.Now().Add(-time.Second)), id)
		if err := members.SendMail(t.Context(), s, ada.Org.ID, id); err != nil || box.Count() != 2 {
			t.Errorf("%d mails, %v", box.Count(), err)
		}
	})
}

// TestNoMail: what is not sent, and why.
func TestNoMail(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, other := w.org("acme"), w.org("other")
		bob := object{"role": "member", "email": "bob@example.org"}
		ada.Post(invitations, bob).Want(http.StatusCreated)
		if m := mailOf(ada); m != nil {
			t.Errorf("without a mail server: %v", m)
		}
		box := notifytest.OpenMailbox(t, 0)
		s := w.withMail(box.URL)
		ada.Post(invitations, object{"role": "member"}).Want(http.StatusCreated)
		if m := mailOf(ada); m != nil {
			t.Errorf("without an address: %v", m)
		}
		ada.Post(invitations, object{"role": "member", "email": "bob@example.org\r\nBcc: eve@evil.example"}).Want(http.StatusBadRequest)

		// It was ended before the job ran.
		id, _ := invite(ada, bob)
		ada.Do(http.MethodDelete, invitations+"/"+id, nil).Want(http.StatusNoContent)
		if err := members.SendMail(t.Context(), s, ada.Org.ID, id); err != nil {
			t.Error(err)
		}
		if m := mailOf(ada); m["status"] != "failed" || m["detail"] != "not sent: the invitation was revoked" {
			t.Errorf("of an ended invitation: %v", m)
		}
		// Another organisation's is not found, and a lost secret makes no wrong link.
		id, _ = invite(ada, object{"role": "member", "email": "dan@example.org"})
		if err := members.SendMail(t.Context(), s, other.Org.ID, id); err != nil || mailOf(ada)["status"] != "pending" {
			t.Errorf("%v, %v", err, mailOf(ada))
		}
		s.Secret = []byte(strings.Repeat("x", 32))
		if err := members.SendMail(t.Context(), s, ada.Org.ID, id); err != nil || mailOf(ada)["status"] != "failed" {
			t.Errorf("%v, %v", err, mailOf(ada))
		}
		// Nobody fills a stranger's mailbox by inviting and ending.
		for i := range 5 {
			id, _ := invite(ada, object{"role": "member", "email": "victim@example.org"})
			m := mailOf(ada)
			want := "pending <nil>"
			if i >= 3 {
				want = "failed not sent: there were too many invitations by mail today; send the link yourself"
			}
			if got := fmt.Sprint(m["status"], " ", m["detail"]); got != want {
				t.Errorf("invitation %d: %s, want %s", i, got, want)
			}
			ada.Do(http.MethodDelete, invitations+"/"+id, nil).Want(http.StatusNoContent)
		}
		id, _ = invite(other, object{"role": "member", "email": "victim@example.org"})
		if err := members.SendMail(t.Context(), s, other.Org.ID, id); err != nil || mailOf(other)["status"] != "delivered" {
			t.Errorf("%v, %v", err, mailOf(other))
		}
		if n := box.Count(); n != 1 {
			t.Errorf("%d mails, want 1", n)
		}
	})
}
