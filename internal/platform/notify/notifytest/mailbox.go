package notifytest

import (
	"bytes"
	"io"
	"net"
	"net/mail"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
)

// A Mailbox is a real mail server on this machine that keeps its mails, after it
// has deferred the first ones.
type Mailbox struct {
	URL string // smtp://...

	mu     sync.Mutex
	busy   int // how many mails to defer
	mails  []*mail.Message
	bodies []string
}

// OpenMailbox starts the server, which ends with the test. It defers the first mails.
func OpenMailbox(t *testing.T, busy int) *Mailbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &Mailbox{URL: "smtp://" + l.Addr().String(), busy: busy}
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
func (m *Mailbox) take(raw []byte) error {
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

// Count is how many mails have arrived.
func (m *Mailbox) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mails)
}

// Mail returns a mail that has arrived, and its body as it was sent.
func (m *Mailbox) Mail(i int) (*mail.Message, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mails[i], m.bodies[i]
}

// mailSession is one SMTP session.
type mailSession struct{ box *Mailbox }

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
