package notify_test

import (
	"context"
	"mime"
	"net"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

const withLogin = mailUser + ":" + mailPassword + "@"

var ops = notify.Target{Channel: notify.Email, Address: "ops@example.org"}

func TestMailIsDelivered(t *testing.T) {
	for _, c := range []struct {
		name     string
		setup    mailSetup
		url      string
		wantTLS  bool
		wantUser string
	}{
		{"STARTTLS and PLAIN", mailSetup{}, "smtp://" + withLogin + mailHost + ":587", true, mailUser},
		{"STARTTLS and LOGIN", mailSetup{mechanism: "LOGIN"}, "smtp://" + withLogin + mailHost, true, mailUser},
		{"STARTTLS without a login", mailSetup{}, "smtp://" + mailHost, true, ""},
		{"TLS from the start", mailSetup{tlsFirst: true}, "smtps://" + withLogin + mailHost, true, mailUser},
		{"TLS from the start by the port", mailSetup{tlsFirst: true}, "smtp://" + mailHost + ":465", true, ""},
		{"on this machine", mailSetup{noTLS: true}, "smtp://localhost:2525", false, ""},
		{"on this machine by address", mailSetup{noTLS: true}, "smtp://[::1]:2525/", false, ""},
		{"on this machine with a login", mailSetup{certificateFor: "localhost"}, "smtp://" + withLogin + "localhost", true, mailUser},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serveMail(t, c.setup)
			s := newSender(t, server.options(c.url))
			got := s.Send(t.Context(), notify.Target{Channel: notify.Email, Address: "Ops <ops@example.org>"}, firing())
			if got.Outcome != notify.Delivered || got.Status != 250 || got.Latency <= 0 {
				t.Fatalf("got %+v, want it delivered", got)
			}
			mail := server.mails()[0]
			if mail.tls != c.wantTLS || mail.user != c.wantUser || mail.from != "alerts@whetstone.example.org" ||
				mail.to != "ops@example.org" {
				t.Errorf("got %+v", mail)
			}
			if !s.MailConfigured() {
				t.Error("mail is not said to be configured")
			}
		})
	}
}

// TestMailToOtherScripts asks for SMTPUTF8 only where an address needs it.
func TestMailToOtherScripts(t *testing.T) {
	server := serveMail(t, mailSetup{})
	s := newSender(t, server.options("smtp://"+mailHost))
	for i, address := range []string{"ops@example.org", "öps@example.org"} {
		got := s.Send(t.Context(), notify.Target{Channel: notify.Email, Address: address}, firing())
		if got.Outcome != notify.Delivered {
			t.Fatalf("%s: got %+v", address, got)
		}
		if mail := server.mails()[i]; mail.to != address || mail.utf8 != (i == 1) {
			t.Errorf("%s: got %+v", address, mail)
		}
	}
}

func TestMailIsNotDelivered(t *testing.T) {
	reply := func(code int, text string) error {
		return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 1, 1}, Message: text}
	}
	for _, c := range []struct {
		name  string
		setup mailSetup
		url   string
		want  notify.Result
	}{
		{
			"wrong password",
			mailSetup{},
			"smtp://ada:s3cret-Passw0rd@" + mailHost,
			notify.Result{Outcome: notify.Failed, Status: 535, Detail: "mail server, login: 535 5.7.8 wrong password … for …"},
		},
		{
			"wrong password by LOGIN",
			mailSetup{mechanism: "LOGIN"},
			"smtp://ada:s3cret-Passw0rd@" + mailHost,
			notify.Result{Outcome: notify.Failed, Status: 535, Detail: "mail server, login: 535 5.7.8 wrong password … for …"},
		},
		{
			"no STARTTLS",
			mailSetup{noTLS: true},
			"smtp://" + mailHost,
			notify.Result{Outcome: notify.Failed, Detail: "the mail server does not offer STARTTLS, and nothing is sent to it in the clear: use smtps:// or another server"},
		},
		{
			"no STARTTLS before a login",
			mailSetup{noTLS: true},
			"smtp://" + withLogin + "127.0.0.1",
			notify.Result{Outcome: notify.Failed, Detail: "the mail server does not offer STARTTLS, and nothing is sent to it in the clear: use smtps:// or another server"},
		},
		{
			"no login",
			mailSetup{mechanism: "-"},
			"smtp://" + withLogin + mailHost,
			notify.Result{Outcome: notify.Failed, Detail: "the mail server does not offer to log in with PLAIN or LOGIN: take the user out of --smtp-url or use another server"},
		},
		{
			"a login of another sort",
			mailSetup{mechanism: "XPLAIN"},
			"smtp://" + withLogin + mailHost,
			notify.Result{Outcome: notify.Failed, Detail: "the mail server does not offer to log in with PLAIN or LOGIN: take the user out of --smtp-url or use another server"},
		},
		{
			"certificate for another name",
			mailSetup{certificateFor: "other.example.org"},
			"smtp://" + mailHost,
			notify.Result{Outcome: notify.Retry, Detail: "mail server, STARTTLS: its certificate is not valid"},
		},
		{
			"certificate for another name from the start",
			mailSetup{certificateFor: "other.example.org", tlsFirst: true},
			"smtps://" + mailHost,
			notify.Result{Outcome: notify.Retry, Detail: "mail server, TLS: its certificate is not valid"},
		},
		{
			"no TLS where it should be",
			mailSetup{},
			"smtps://" + mailHost,
			notify.Result{Outcome: notify.Retry, Detail: "mail server, TLS: it does not speak TLS"},
		},
		{
			"busy",
			mailSetup{recipient: reply(450, "mailbox busy")},
			"smtp://" + mailHost,
			notify.Result{Outcome: notify.Retry, Status: 450, Detail: "mail server, recipient: 450 4.1.1 mailbox busy"},
		},
		{
			"no such mailbox",
			mailSetup{recipient: reply(550, "<ops@example.org>: no such\r\nmailbox")},
			"smtp://" + mailHost,
			notify.Result{Outcome: notify.Failed, Status: 550, Detail: "mail server, recipient: 550 <…>: no such 5.1.1 mailbox"},
		},
		{
			"sender refused",
			mailSetup{sender: reply(553, "not yours")},
			"smtp://" + mailHost,
			notify.Result{Outcome: notify.Failed, Status: 553, Detail: "mail server, sender: 553 5.1.1 not yours"},
		},
		{
			"content refused",
			mailSetup{data: reply(554, "spam")},
			"smtp://" + mailHost,
			notify.Result{Outcome: notify.Failed, Status: 554, Detail: "mail server, message: 554 5.1.1 spam"},
		},
		{
			"content later",
			mailSetup{data: reply(451, "try again")},
			"smtp://" + mailHost,
			notify.Result{Outcome: notify.Retry, Status: 451, Detail: "mail server, message: 451 4.1.1 try again"},
		},
		{
			"too many",
			mailSetup{greeting: reply(421, "too many")},
			"smtp://" + mailHost,
			notify.Result{Outcome: notify.Retry, Status: 421, Detail: "mail server, greeting: 421 4.1.1 too many"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serveMail(t, c.setup)
			got := newSender(t, server.options(c.url)).Send(t.Context(), ops, firing())
			got.Latency = 0
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if len(server.mails()) != 0 {
				t.Error("the server has a mail")
			}
			if c.setup.noTLS && server.logins != 0 {
				t.Error("the password was sent in the clear")
			}
		})
	}
}

func TestMailServerMisbehaves(t *testing.T) {
	for _, c := range []struct {
		name    string
		address string
		want    string
	}{
		{"silent", scripted(t), "mail server, greeting: timed out"},
		{"garbage", scripted(t, "\x00\xff garbage\r\n"), "mail server, greeting: the connection failed"},
		{"hangs up", scripted(t, "220 hello\r\n"), "mail server, greeting: the connection failed"},
		{"odd code", scripted(t, "220 hello\r\n", "250 hi\r\n", "299 what\r\n"), "mail server, sender: 299 what"},
		{"nobody listens", "127.0.0.1:1", "mail server, connection: the connection failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			patience := time.Minute
			if c.name == "silent" {
				patience = 300 * time.Millisecond
			}
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			s := newSender(t, notify.Options{SMTPURL: "smtp://" + c.address, MailFrom: "w@example.org"})
			got := s.Send(ctx, ops, firing())
			if got.Outcome != notify.Retry || got.Detail != c.want || strings.Contains(got.Detail, "127.0.0.1") {
				t.Errorf("got %+v, want a retry because of %q", got, c.want)
			}
		})
	}
}

func TestMailIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	address := scripted(t)
	s := newSender(t, notify.Options{
		SMTPURL: "smtp://" + address, MailFrom: "w@example.org",
		MailDial: func(ctx context.Context, network, address string) (net.Conn, error) {
			defer cancel()
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	if got := s.Send(ctx, ops, firing()); got.Outcome != notify.Retry || got.Detail != "interrupted" {
		t.Errorf("got %+v, want a retry", got)
	}
}

// TestTakenMailIsDelivered: a server that took the mail and fails then must
// not get it again.
func TestTakenMailIsDelivered(t *testing.T) {
	address := scripted(t, "220 hello\r\n", "250 hi\r\n", "250 from\r\n", "250 to\r\n", "354 go\r\n", "250 taken\r\n")
	s := newSender(t, notify.Options{SMTPURL: "smtp://" + address, MailFrom: "w@example.org"})
	if got := s.Send(t.Context(), ops, firing()); got.Outcome != notify.Delivered {
		t.Errorf("got %+v, want it delivered", got)
	}
}

func TestMailThreads(t *testing.T) {
	server := serveMail(t, mailSetup{})
	s := newSender(t, server.options("smtp://"+mailHost))
	for _, name := range []string{"firing", "firing", "reminder", "resolved"} {
		if got := s.Send(t.Context(), ops, notices()[name]); got.Outcome != notify.Delivered {
			t.Fatalf("got %+v", got)
		}
	}
	const first = "<msg_0002@whetstone.example.org>"
	for i, want := range [][3]string{
		{first, "", ""},
		{first, "", ""},
		{"<msg_0003@whetstone.example.org>", first, first},
		{"<msg_0004@whetstone.example.org>", first, first},
	} {
		header := parseMail(t, server.mails()[i].data).Header
		got := [3]string{header.Get("Message-ID"), header.Get("In-Reply-To"), header.Get("References")}
		if got != want {
			t.Errorf("mail %d: got %q, want %q", i, got, want)
		}
	}
}

func TestMailCannotBeInjected(t *testing.T) {
	server := serveMail(t, mailSetup{})
	s := newSender(t, server.options("smtp://"+mailHost))
	for _, address := range []string{
		"", "ops", "a@example.org, b@example.org", "a@example.org\r\nBcc: b@example.org", "a@example.org\x00",
		"\"a\r\nb\"@example.org", "=?utf-8?q?a=0D=0ABcc:_b?= <a@example.org>", "<a@example.org> RCPT TO:<b@example.org>",
	} {
		got := s.Send(t.Context(), notify.Target{Channel: notify.Email, Address: address}, firing())
		if got.Outcome != notify.Failed || got.Detail != "the address of the alert must be one mail address, like ada@example.org" {
			t.Errorf("%q: got %+v, want it refused", address, got)
		}
	}
	if len(server.mails()) != 0 {
		t.Fatalf("got %+v, want no mail", server.mails())
	}
	notice := firing()
	notice.Skill = "x\r\nBcc: b@example.org\r\n\r\n.\r\nQUIT\r\nünï\u2028\x00y"
	notice.Note = "a\r\n.\r\nMAIL FROM:<b@example.org>"
	if got := s.Send(t.Context(), ops, notice); got.Outcome != notify.Delivered {
		t.Fatalf("got %+v", got)
	}
	if n := len(server.mails()); n != 1 {
		t.Fatalf("got %d mails, want 1", n)
	}
	parsed := parseMail(t, server.mails()[0].data)
	subject, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
	if want := "[firing] x Bcc: b@example.org . QUIT ünï y pass rate 65 % (below 70 %)"; err != nil || subject != want {
		t.Errorf("got subject %q, %v, want %q", subject, err, want)
	}
	if parsed.Header.Get("Bcc") != "" || parsed.Header.Get("To") != "<ops@example.org>" {
		t.Errorf("got header %v", parsed.Header)
	}
}

func parseMail(t *testing.T, data string) *netmail.Message {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestNewRefusesBadMailSettings(t *testing.T) {
	for _, c := range []struct {
		name, url, from string
		want            string
	}{
		{"scheme", "http://u:hunter22@m", "", "smtp-url must be smtp://user:password@host:port or smtps://user:password@host:port"},
		{"no host", "smtp://u:hunter22@", "", "smtp-url must be smtp://user:password@host:port or smtps://user:password@host:port"},
		{"path", "smtp://u:hunter22@m/x", "", "smtp-url must be smtp://user:password@host:port or smtps://user:password@host:port"},
		{"not a URL", "smtp://u:hunter22%@m", "", "smtp-url must be smtp://user:password@host:port or smtps://user:password@host:port"},
		{"port", "smtp://u:hunter22@m:70000", "", "smtp-url must have a port from 1 to 65535, or none"},
		{"NUL", "smtp://u:hunter22%00@m", "", "smtp-url must not have a NUL in its user or password"},
		{"sender", "", "hunter22", "mail-from must be one mail address, like ada@example.org"},
		{"two senders", "smtp://m", "a@example.org, hunter22@example.org", "mail-from must be one mail address, like ada@example.org"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := notify.New(notify.Options{SMTPURL: c.url, MailFrom: c.from})
			if !fault.Is(err, fault.Malformed) || err.Error() != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestMailNeedsBothSettings(t *testing.T) {
	for _, o := range []notify.Options{{}, {SMTPURL: "smtp://m"}, {MailFrom: "w@example.org"}} {
		s := newSender(t, o)
		got := s.Send(t.Context(), ops, firing())
		if s.MailConfigured() || got.Outcome != notify.Failed ||
			got.Detail != "no mail server is configured: set --smtp-url and --mail-from" {
			t.Errorf("%+v: got %+v", o, got)
		}
	}
}
