package alerts_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/notifytest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestMail follows mails from the push of bad grades to the mailbox: "firing",
// which is retried once, and "resolved" in the same thread.
func TestMail(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		box := notifytest.OpenMailbox(t, 1)
		w := newWorld(t, db, setup{guarded: true, smtpURL: box.URL, mailFrom: "alerts@whetstone.example.org", backoff: quick})
		ada := w.org("acme")
		made := ada.Post(alertsPath, object{
			"type": "pass_rate_below", "channel": "email", "config": object{"email": "Ada <ada@example.org>"},
		}).
			Want(

				http.StatusCreated).Object()

		if made["warnings"] != nil {
			t.Errorf("warnings %v, want none: there is a mail server", made["warnings"])
		}
		w.Work()
		ada.sessions("pdf", repeat(0.2, 5)...)
		apptest.Eventually(t, "the first mail", func() bool { return box.Count() == 1 })
		if got, want := ada.outcome(made["id"].(string)), "delivered after 2: 250 the mail server has taken the mail"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		ada.sessions("pdf", repeat(1, 95)...)
		apptest.Eventually(t, "an evaluation", func() bool { return w.Count("alert_states WHERE good_streak = 1") == 1 })
		w.evaluate(ada, 1)
		apptest.Eventually(t, "the second mail", func() bool { return box.Count() == 2 })
		ada.wantEvents("firing pdf", "resolved pdf")

		one, body := box.Mail(0)
		two, _ := box.Mail(1)
		first, second := one.Header, two.Header
		for name, want := range map[string]string{
			"From": "<alerts@whetstone.example.org>", "To": "<ada@example.org>",
			"Subject": "[firing] pdf pass rate 20 % (below 80 %)", "Auto-Submitted": "auto-generated",
		} {
			if got := first.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if !strings.HasPrefix(second.Get("Subject"), "[resolved] pdf") {
			t.Errorf("second subject %q", second.Get("Subject"))
		}
		if thread := first.Get("Message-ID"); second.Get("In-Reply-To") != thread || second.Get("References") != thread ||
			thread == "" {
			t.Errorf("the second mail answers %q, want %q", second.Get("In-Reply-To"), thread)
		}
		if !strings.Contains(body, apptest.PublicURL+"/skills/"+ada.skill("pdf")) {
			t.Errorf("no link in %q", body)
		}
	})
}

// TestNoMailServer: the failure names the missing settings.
func TestNoMailServer(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, setup{smtpURL: "smtp://127.0.0.1:1"}) // but no sender
		ada := w.org("acme")
		ada.sessions("pdf", repeat(0, 5)...)
		id := ada.alert(object{"type": "pass_rate_below", "channel": "email", "config": object{"email": "ada@example.org"}})
		w.evaluate(ada, 1)
		w.Work()
		want := "failed after 1: <nil> no mail server is configured: set --smtp-url and --mail-from"
		if got := ada.outcome(id); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
