package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

const noMailServer = "no mail server is configured: set --smtp-url and --mail-from"

// A Mail is one that is not a notice.
type Mail struct {
	// ID is the same for each attempt to send this mail, as that of a Notice.
	ID      string
	To      string
	Subject string
	Text    string
	Secrets []string // in the text; a server that repeats them does not get them into a Result
}

// SendMail makes one attempt to send a mail, as Send does.
func (s *Sender) SendMail(ctx context.Context, m Mail) Result {
	if !s.mail.configured() {
		return failed(noMailServer)
	}
	to, err := parseMailAddress(m.To)
	if err != nil || !isID(m.ID) {
		return failed("no mail can be sent to the address")
	}
	msg := envelopeOf(s.mail.from, to, m.ID)
	msg.Subject(m.Subject)
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	return s.deliverMail(ctx, to, msg, append(m.Secrets, m.To)...)
}

// deliverMail waits for the rate limit and makes one attempt. The secrets are kept out
// of the result.
func (s *Sender) deliverMail(ctx context.Context, to *mail.Address, msg *gomail.Msg, secrets ...string) Result {
	release, err := s.limiter.acquire(ctx, delivery{host: "mail server", address: "mail server"})
	if err != nil {
		return notSent(err)
	}
	defer release()
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	err = s.mail.send(ctx, to, msg)
	r := mailResult(ctx, err, append(append(s.mail.secrets(), secrets...), to.Address))
	r.Latency = time.Since(started)
	return r
}

// Missing features of a server: a retry does not help.
var (
	errNoTLS = errors.New("the mail server does not offer STARTTLS, and nothing is sent to it in the clear: " +
		"use smtps:// or another server")
	errNoLogin = errors.New("the mail server does not offer to log in with PLAIN or LOGIN: " +
		"take the user out of --smtp-url or use another server")
)

// stepError names the step of the SMTP conversation that failed.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }

func (e *stepError) Unwrap() error { return e.err }

// mailResult returns the result of a conversation; a nil error means that the
// server accepted the mail. As in RFC 5321, 4xx replies are temporary failures
// and 5xx replies permanent ones.
func mailResult(ctx context.Context, err error, secrets []string) Result {
	if err == nil {
		return Result{Outcome: Delivered, Status: 250, Detail: "the mail server has taken the mail"}
	}
	for _, permanent := range []error{errNoTLS, errNoLogin} {
		if errors.Is(err, permanent) {
			return failed(permanent.Error())
		}
	}
	step := "connection"
	if e, ok := errors.AsType[*stepError](err); ok {
		step = e.step
	}
	if e, ok := errors.AsType[*textproto.Error](err); ok {
		r := Result{Outcome: Retry, Status: e.Code}
		if e.Code >= 500 {
			r.Outcome = Failed
		}
		r.Detail = fmt.Sprintf("mail server, %s: %d %s", step, e.Code, redactedExcerpt([]byte(e.Msg), secrets))
		return r
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return Result{Outcome: Retry, Detail: "interrupted"}
	}
	return Result{Outcome: Retry, Detail: "mail server, " + step + ": " + describe(err)}
}

// send delivers a mail in one SMTP conversation.
func (m *mailServer) send(ctx context.Context, to *mail.Address, msg *gomail.Msg) error {
	conn, err := m.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	// The SMTP client takes no context: a deadline in the past makes pending
	// reads and writes fail when the context ends.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	client, err := smtp.NewClient(conn, m.host)
	if err != nil {
		return &stepError{"greeting", err}
	}
	// SMTPUTF8 is used only where an address needs it: the servers that relay
	// the mail further may not support it.
	ascii := !strings.ContainsFunc(m.from.Address+to.Address, func(r rune) bool { return r > unicode.MaxASCII })
	client.SkipSMTPUTF8(ascii)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"greeting", func() error { return client.Hello(m.name) }},
		{"STARTTLS", func() error {
			if m.tlsFirst || m.plain {
				return nil
			}
			if offered, _ := client.Extension("STARTTLS"); !offered {
				return errNoTLS
			}
			return client.StartTLS(m.tls)
		}},
		{"login", func() error { return m.logIn(client) }},
		{"sender", func() error { return client.Mail(envelope(m.from)) }},
		{"recipient", func() error { return client.Rcpt(envelope(to)) }},
		{"message", func() error {
			data, err := client.Data()
			if err != nil {
				return err
			}
			if _, err := msg.WriteTo(data); err != nil {
				return err
			}
			return data.Close()
		}},
	} {
		if err := step.do(); err != nil {
			return &stepError{step.name, err}
		}
	}
	_ = client.Quit() // the server has accepted the mail already
	return nil
}

func (m *mailServer) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := m.dial(ctx, "tcp", net.JoinHostPort(m.host, m.port))
	if err != nil || !m.tlsFirst {
		return conn, err
	}
	encrypted := tls.Client(conn, m.tls)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &stepError{"TLS", err}
	}
	return encrypted, nil
}

// logIn authenticates. The connection is encrypted here whenever there is a
// user: mailServer.plain excludes one.
func (m *mailServer) logIn(client *smtp.Client) error {
	if m.user == "" {
		return nil
	}
	_, offered := client.Extension("AUTH")
	mechanisms := strings.Fields(strings.ToUpper(offered))
	switch {
	case slices.Contains(mechanisms, "PLAIN"):
		return client.Auth(smtp.PlainAuth("", m.user, m.password, m.host, false))
	case slices.Contains(mechanisms, "LOGIN"):
		return client.Auth(smtp.LoginAuth(m.user, m.password, m.host, false))
	default:
		return errNoLogin
	}
}

// envelope formats an address for MAIL and RCPT: in brackets, without a name.
func envelope(a *mail.Address) string { return (&mail.Address{Address: a.Address}).String() }
