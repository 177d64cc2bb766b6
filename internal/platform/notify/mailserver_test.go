package notify_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

const (
	mailHost     = "mail.example.org"
	mailUser     = "ada"
	mailPassword = "hunter22"
)

// mailSetup says how a mail server differs from an ordinary one with STARTTLS
// and a login.
type mailSetup struct {
	certificateFor string // mailHost when empty
	noTLS          bool
	tlsFirst       bool
	mechanism      string // PLAIN when empty, none when "-"
	greeting       error  // answers to the steps
	sender         error
	recipient      error
	data           error
}

type mail struct {
	from, to string
	data     string
	user     string
	tls      bool
	utf8     bool
}

// mailServer is a real SMTP server on loopback.
type mailServer struct {
	mailSetup
	address string
	roots   *x509.CertPool
	mu      sync.Mutex
	got     []mail
	logins  int
}

func serveMail(t *testing.T, setup mailSetup) *mailServer {
	t.Helper()
	if setup.certificateFor == "" {
		setup.certificateFor = mailHost
	}
	m := &mailServer{mailSetup: setup}
	certificate, roots := newCertificate(t, setup.certificateFor)
	m.roots = roots
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{server: m, conn: c}, m.greeting
	}))
	server.Domain = mailHost
	server.ErrorLog = log.New(io.Discard, "", 0)
	server.AllowInsecureAuth = true // the client has to be the careful one
	server.EnableSMTPUTF8 = true
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	if !setup.noTLS {
		server.TLSConfig = config
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = listener.Addr().String()
	if setup.tlsFirst {
		listener = tls.NewListener(listener, config)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return m
}

// options send by this server under the name in the URL.
func (m *mailServer) options(smtpURL string) notify.Options {
	return notify.Options{
		SMTPURL: smtpURL, MailFrom: "Whetstone <alerts@whetstone.example.org>", MailRoots: m.roots,
		MailDial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, m.address)
		},
	}
}

func (m *mailServer) mails() []mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.got
}

type mailSession struct {
	server *mailServer
	conn   *smtp.Conn
	mail   mail
}

func (s *mailSession) AuthMechanisms() []string {
	switch s.server.mechanism {
	case "":
		return []string{"PLAIN"}
	case "-":
		return nil
	default:
		return []string{s.server.mechanism}
	}
}

func (s *mailSession) Auth(mechanism string) (sasl.Server, error) {
	s.server.mu.Lock()
	s.server.logins++
	s.server.mu.Unlock()
	if mechanism == "LOGIN" {
		return &loginServer{check: s.check}, nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return s.check(user, password) }), nil
}

func (s *mailSession) check(user, password string) error {
	if user != mailUser || password != mailPassword {
		return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "wrong password " + password + " for " + user}
	}
	s.mail.user = user
	return nil
}

func (s *mailSession) Mail(from string, o *smtp.MailOptions) error {
	s.mail.from = from
	_, s.mail.tls = s.conn.TLSConnectionState()
	s.mail.utf8 = o.UTF8
	return s.server.sender
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.mail.to != "" {
		return errors.New("one recipient only")
	}
	s.mail.to = to
	return s.server.recipient
}

func (s *mailSession) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mail.data = string(data)
	if s.server.data != nil {
		return s.server.data
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.got = append(s.server.got, s.mail)
	return nil
}

func (*mailSession) Reset() {}

func (*mailSession) Logout() error { return nil }

// loginServer is the server's side of LOGIN.
type loginServer struct {
	check func(user, password string) error
	step  int
	user  string
}

func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	l.step++
	switch l.step {
	case 1:
		return []byte("Username:"), false, nil
	case 2:
		l.user = string(response)
		return []byte("Password:"), false, nil
	default:
		return nil, true, l.check(l.user, string(response))
	}
}

// newCertificate makes an authority of its own and what trusts it.
func newCertificate(t *testing.T, host string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// scripted is a server that says its lines, one for each that it hears, and
// hangs up after the last. It waits for the end of a mail after a 354. Without
// lines it says nothing.
func scripted(t *testing.T, lines ...string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		heard := bufio.NewReader(conn)
		for _, line := range lines {
			_, _ = io.WriteString(conn, line)
			got, err := heard.ReadString('\n')
			for err == nil && strings.HasPrefix(line, "354") && got != ".\r\n" {
				got, err = heard.ReadString('\n')
			}
			if err != nil {
				return
			}
		}
		if len(lines) == 0 {
			_, _ = io.Copy(io.Discard, heard) // until the client hangs up
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}
