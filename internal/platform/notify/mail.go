package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// mailServer is the operator's SMTP server, with the sender of mails.
type mailServer struct {
	host, port     string
	user, password string // empty without authentication
	from           *mail.Address
	name           string // our host name, for EHLO
	tls            *tls.Config
	tlsFirst       bool // TLS from the start, instead of STARTTLS
	plain          bool // no TLS: the server is on this machine and gets no password
	dial           func(ctx context.Context, network, address string) (net.Conn, error)
}

// newMailServer validates each setting, also when the other one is missing.
func newMailServer(o Options) (*mailServer, error) {
	m := &mailServer{dial: o.MailDial}
	if o.SMTPURL != "" {
		if err := m.setURL(o.SMTPURL, o.MailRoots); err != nil {
			return nil, err
		}
	}
	if o.MailFrom != "" {
		from, err := parseMailAddress(o.MailFrom)
		if err != nil {
			return nil, fault.Invalid("mail-from", "mail-from %s", publicMessage(err))
		}
		m.from = from
	}
	if m.dial == nil {
		m.dial = (&net.Dialer{Timeout: connectTimeout}).DialContext
	}
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	m.name = name
	return m, nil
}

// configured reports whether both settings are there.
func (m *mailServer) configured() bool { return m.host != "" && m.from != nil }

// setURL applies --smtp-url. Its errors do not contain the URL, which has the
// password in it.
func (m *mailServer) setURL(raw string, roots *x509.CertPool) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return fault.Invalid("smtp-url",
			"smtp-url must be smtp://user:password@host:port or smtps://user:password@host:port")
	}
	m.host, m.port = u.Hostname(), u.Port()
	if m.port == "" {
		m.port = map[string]string{"smtp": "587", "smtps": "465"}[u.Scheme]
	}
	if n, err := strconv.ParseUint(m.port, 10, 16); err != nil || n == 0 {
		return fault.Invalid("smtp-url", "smtp-url must have a port from 1 to 65535, or none")
	}
	m.user = u.User.Username()
	m.password, _ = u.User.Password()
	if strings.Contains(m.user+m.password, "\x00") {
		return fault.Invalid("smtp-url", "smtp-url must not have a NUL in its user or password")
	}
	m.tlsFirst = u.Scheme == "smtps" || m.port == "465"
	addr, err := netip.ParseAddr(m.host)
	loopback := strings.EqualFold(m.host, "localhost") || err == nil && addr.Unmap().IsLoopback()
	m.plain = !m.tlsFirst && m.user == "" && loopback
	m.tls = &tls.Config{ServerName: m.host, MinVersion: tls.VersionTLS12, RootCAs: roots}
	return nil
}

// secrets returns the credentials as a server could echo them in an error: as
// they are, and in base64 as AUTH sends them.
func (m *mailServer) secrets() (all []string) {
	if m.user == "" {
		return nil
	}
	plainAuth := "\x00" + m.user + "\x00" + m.password // RFC 4616
	for _, s := range []string{m.user, m.password, plainAuth} {
		if s != "" {
			all = append(all, s, base64.StdEncoding.EncodeToString([]byte(s)))
		}
	}
	return all
}

// envelopeOf starts a mail. Its Message-ID is the same for each attempt, by which mail
// servers and clients drop a second copy.
func envelopeOf(from, to *mail.Address, id string) *gomail.Msg {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(from)
	msg.ToMailAddress(&mail.Address{Address: to.Address})
	msg.SetDate()
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader(gomail.HeaderXAutoResponseSuppress, "All")
	msg.SetMessageIDWithValue(id + domainOf(from))
	return msg
}

// domainOf is the end of an address, with the @.
func domainOf(a *mail.Address) string { return a.Address[strings.LastIndexByte(a.Address, '@'):] }

// newMail composes a notice as a mail to one address. In-Reply-To and
// References make mail clients show the notices of one episode as a thread.
func newMail(n Notice, from, to *mail.Address) *gomail.Msg {
	m := compose(n, noEscape)
	msg := envelopeOf(from, to, n.ID)
	msg.Subject(m.title)
	atDomain := domainOf(from)
	if n.EpisodeID != "" && n.EpisodeID != n.ID {
		first := "<" + n.EpisodeID + atDomain + ">"
		msg.SetGenHeader(gomail.HeaderInReplyTo, first)
		msg.SetGenHeader(gomail.HeaderReferences, first)
	}

	var body strings.Builder
	body.WriteString(m.summary + "\n\n")
	for _, l := range m.lines {
		body.WriteString(l.format("") + "\n")
	}
	if m.url != "" {
		body.WriteString("\n" + m.url + "\n")
	}
	msg.SetBodyString(gomail.TypeTextPlain, body.String())
	return msg
}

// describe returns a short reason why the conversation with a mail server
// failed. It does not reveal the server's address.
func describe(err error) string {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "timed out"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "its name could not be looked up"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not valid"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "it does not speak TLS"
	}
	return "the connection failed"
}
