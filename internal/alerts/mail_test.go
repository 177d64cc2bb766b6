package alerts_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/store/storetest"
)

// mailbox is a real mail server on this machine that keeps its mails, after it
// has deferred the first ones.
type mailbox struct {
	url string

	mu     sync.Mutex
	busy   int // how many mails to defer
	mails  []*mail.Message
	bodies []string
}

// openMailbox starts the server.
func openMailbox(t *testing.T, busy int) *mailbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{url: "smtp://" + l.Addr().String(), busy: busy}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailSession{box: m}, nil }))
	server.Domain = "localhost"
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) }) // ends with an error when it is closed
	t.Cleanup(func() {
		_ = server.Close()
		wg.Wait()
	})
	return m
}

// take keeps a mail, or defers it.
func (m *mailbox) take(raw []byte) error {
	msg, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	body, err := io.ReadAll(msg.Body)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy > 0 {
		m.busy--
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "busy"}
	}
	m.mails, m.bodies = append(m.mails, msg), append(m.bodies, string(body))
	return nil
}

func (m *mailbox) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mails)
}

// mailSession is one SMTP session.
type mailSession struct{ box *mailbox }

func (*mailSession) Reset()                               {}
func (*mailSession) Logout() error                        { return nil }
func (*mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (*mailSession) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return s.box.take(raw)
}

// TestMail follows mails from the push of bad grades to the mailbox: "firing",
// which is retried once, and "resolved" in the same thread.
func TestMail(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		box := openMailbox(t, 1)
		w := newWorld(t, db, setup{guarded: true, smtpURL: box.url, mailFrom: "alerts@whetstone.example.org", backoff: quick})
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
		apptest.Eventually(t, "the first mail", func() bool { return box.count() == 1 })
		if got, want := ada.outcome(made["id"].(string)), "delivered after 2: 250 the mail server has taken the mail"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		ada.sessions("pdf", repeat(1, 95)...)
		apptest.Eventually(t, "an evaluation", func() bool { return w.Count("alert_states WHERE good_streak = 1") == 1 })
		w.evaluate(ada, 1)
		apptest.Eventually(t, "the second mail", func() bool { return box.count() == 2 })
		ada.wantEvents("firing pdf", "resolved pdf")

		first, second := box.mails[0].Header, box.mails[1].Header
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
		if !strings.Contains(box.bodies[0], apptest.PublicURL+"/skills/"+ada.skill("pdf")) {
			t.Errorf("no link in %q", box.bodies[0])
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
