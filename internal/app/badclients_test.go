//go:build unix

package app_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

const (
	// little is how much time an impatient service gives.
	little = 500 * time.Millisecond
	// soon is how long a test waits for what must happen.
	soon = 30 * time.Second
)

// impatient starts a service that gives clients little time to receive, and so
// much to send.
func impatient(t *testing.T, sending time.Duration) *service {
	t.Helper()
	log := &apptest.Buffer{}
	o := options(settings(t, "--roles", "web"), log)
	o.Timeouts = app.Timeouts{Header: sending, Body: sending, Answer: little, Idle: little}
	a, err := app.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, a, log)
}

// dial opens a connection that ends with the test.
func (s *service) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// say sends a text, as it is.
func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// rest is all that comes until the server hangs up.
func rest(t *testing.T, conn net.Conn) string {
	t.Helper()
	all, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the server holds on to the connection; so far it said %.300q", all)
	}
	return string(all)
}

// answers are the statuses of what came back, in their order.
func answers(said string) []int {
	var all []int
	r := bufio.NewReader(strings.NewReader(said))
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return all
		}
		_, _ = io.Copy(io.Discard, res.Body) // what is there of it
		_ = res.Body.Close()
		all = append(all, res.StatusCode)
	}
}

// TestSlowClients: whoever sends slowly, or never goes on, is left behind, and
// others are served meanwhile.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	s := impatient(t, little)
	head := func(method, path, more string) string {
		return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer %s\r\n%s\r\n", method, path, s.FirstKey, more)
	}
	const body = "Content-Type: application/json\r\nContent-Length: 1000\r\n"
	starts := map[string]string{
		"nothing at all":         "",
		"half a request line":    "GET /api/v1",
		"half a head":            "GET /healthz HTTP/1.1\r\nHost: test\r\nX-A: ",
		"half a body":            head("POST", "/api/v1/alerts", body) + `{"type":`,
		"a chunk without end":    head("POST", "/api/v1/push", "Transfer-Encoding: chunked\r\n") + "ff\r\n{",
		"a body nobody wants":    head("GET", "/api/v1/me", body) + "{",
		"a body of no route":     head("POST", "/api/v1/none", body) + "{",
		"a body without a key":   "POST /api/v1/alerts HTTP/1.1\r\nHost: test\r\n" + body + "\r\n{",
		"a form of nobody":       "POST /login HTTP/1.1\r\nHost: test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\napi_key=",
		"an upload in a browser": "POST /theme HTTP/1.1\r\nHost: test\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\n\r\n--x",
		"a health check's body":  "GET /healthz HTTP/1.1\r\nHost: test\r\n" + body + "\r\n{",
		"never goes on":          head("POST", "/api/v1/alerts", body+"Expect: 100-continue\r\n"),
	}
	conns := map[string]net.Conn{}
	for name, start := range starts { // all before the first is waited for
		conns[name] = s.dial(t)
		say(t, conns[name], start)
	}
	for name, conn := range conns {
		t.Run(name, func(t *testing.T) {
			s.wantStatus(t, "", http.StatusOK, "/healthz")
			for _, status := range answers(rest(t, conn)) {
				if status >= http.StatusInternalServerError {
					t.Errorf("status %d", status)
				}
			}
		})
	}
}

// TestClientsThatDoNotRead: whoever asks for much and takes nothing does not
// hold on to a connection and what is behind it.
//
// It counts the goroutines of the whole process, so it cannot run beside others.
func TestClientsThatDoNotRead(t *testing.T) {
	s := impatient(t, soon)
	path := s.publishLarge(t)
	before := runtime.NumGoroutine()
	for range 8 {
		conn := s.dial(t)
		if err := conn.SetReadBuffer(4 << 10); err != nil {
			t.Fatal(err)
		}
		say(t, conn, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer %s\r\n\r\n", path, s.FirstKey))
	}
	s.wantStatus(t, s.FirstKey, http.StatusOK, "/api/v1/me")
	waitForGoroutines(t, before)
}

// publishLarge publishes a skill that does not compress and returns where it
// can be downloaded.
func (s *service) publishLarge(t *testing.T) string {
	t.Helper()
	noise := make([]byte, 6<<20)
	_, _ = rand.Read(noise) // never fails
	client := apptest.NewClient(t, s.url)
	row := apptest.Row{Form: [][3]string{{"metadata", "", `{"name":"large","version":"1.0.0"}`}, {"archive", "a.tar.gz", apptest.Archive(t, "large", "noise.bin", string(noise))}}}
	for _, r := range s.Routes() {
		if r.Method != http.MethodPost || r.Path != "/api/v1/registry" {
			continue
		}
		a, err := client.Do(t.Context(), row.Request(t, r, nil), apptest.Bearer(s.FirstKey))
		if err != nil {
			t.Fatal(err)
		}
		id, err := a.At("entry.id")
		if err != nil {
			t.Fatal(err)
		}
		return "/api/v1/registry/" + id + "/versions/1.0.0/download"
	}
	t.Fatal("no route to publish by")
	return ""
}

// waitForGoroutines waits until no more goroutines are left than there were,
// but for a few that come and go.
func waitForGoroutines(t *testing.T, before int) {
	t.Helper()
	const some = 6
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(soon); runtime.NumGoroutine() > before+some; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines are left, of %d before:\n%.6000s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestClientsThatVanish breaks connections in the middle of a body and of a
// download.
func TestClientsThatVanish(t *testing.T) {
	s := impatient(t, soon)
	path := s.publishLarge(t)
	before := runtime.NumGoroutine()
	for i := range 40 {
		conn := s.dial(t)
		if err := conn.SetLinger(i % 2); err != nil { // every other one by a reset
			t.Fatal(err)
		}
		if i%4 < 2 {
			say(t, conn, fmt.Sprintf("POST /api/v1/push HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer %s\r\nContent-Length: 100000\r\n\r\n{\"canonical\":", s.FirstKey))
		} else {
			say(t, conn, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer %s\r\n\r\n", path, s.FirstKey))
			_, _ = io.CopyN(io.Discard, conn, 1000) // the beginning of it
		}
		_ = conn.Close()
	}
	waitForGoroutines(t, before)
	s.wantStatus(t, s.FirstKey, http.StatusOK, "/api/v1/me", "/v1/skills", path)
	if log := s.log.String(); strings.Contains(log, "level=ERROR") || strings.Contains(log, "panic") {
		t.Errorf("the log tells of faults of ours:\n%s", log)
	}
}

// TestManyConnections holds as many idle connections as files may be open, up
// to 2,000, and is served beside them.
func TestManyConnections(t *testing.T) {
	s := start(t, settings(t, "--roles", "web"))
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := min(2000, (int(limit.Cur)-400)/2) // both ends are in this process
	before := runtime.NumGoroutine()
	all := make([]net.Conn, n)
	for i := range all {
		all[i] = s.dial(t)
		say(t, all[i], "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
	}
	s.wantStatus(t, s.FirstKey, http.StatusOK, "/api/v1/me", "/readyz")
	t.Logf("%d connections were open at once, %d goroutines beside them", n, runtime.NumGoroutine()-before)
	for _, conn := range all {
		_ = conn.Close()
	}
	waitForGoroutines(t, before)
}

// TestBrokenHTTP says what is not HTTP, or more than one thing at once: it is
// refused, the connection is closed, and nothing hidden is carried out.
func TestBrokenHTTP(t *testing.T) {
	t.Parallel()
	s := impatient(t, soon)
	good := "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"
	hidden := "GET /api/v1/keys HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer " + s.FirstKey + "\r\n\r\n"
	for name, c := range map[string]struct {
		sent string
		want []int
	}{
		"header bomb":          {"GET / HTTP/1.1\r\nHost: test\r\nX-A: " + strings.Repeat("a", 1<<20) + "\r\n\r\n", []int{431}},
		"many headers":         {"GET / HTTP/1.1\r\nHost: test\r\n" + strings.Repeat("X-A: a\r\n", 100_000) + "\r\n", []int{431}},
		"huge URL":             {"GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1\r\nHost: test\r\n\r\n", []int{431}},
		"pipelined garbage":    {good + "garbage\r\n\r\n", []int{200, 400}},
		"binary garbage":       {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
		"HTTP/2 as HTTP/1.1":   {"PRI * HTTP/2.0\r\nHost: test\r\n\r\n" + hidden, []int{400}},
		"HTTP/2 of no frames":  {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden, nil},
		"HTTP/3":               {"GET / HTTP/3.0\r\nHost: test\r\n\r\n", []int{505}},
		"no host":              {"GET /healthz HTTP/1.1\r\n\r\n", []int{400}},
		"two hosts":            {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", []int{400}},
		"bad host":             {"GET /healthz HTTP/1.1\r\nHost: a/b\\c\r\n\r\n", []int{400}},
		"two lengths":          {"POST /api/v1/alerts HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\nContent-Length: " + fmt.Sprint(len(hidden)) + "\r\n\r\n" + hidden, []int{400}},
		"negative length":      {"POST /api/v1/alerts HTTP/1.1\r\nHost: test\r\nContent-Length: -1\r\n\r\n", []int{400}},
		"length with a sign":   {"POST /api/v1/alerts HTTP/1.1\r\nHost: test\r\nContent-Length: +5\r\n\r\nhello", []int{400}},
		"unknown encoding":     {"POST /api/v1/alerts HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: xchunked\r\n\r\n", []int{501}},
		"chunked twice":        {"POST /api/v1/alerts HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{501}},
		"space before a colon": {"POST /api/v1/alerts HTTP/1.1\r\nHost: test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", []int{400}},
		"folded header":        {"GET /healthz HTTP/1.1\r\nHost: test\r\nX-A: a\r\n b\r\n\r\n", nil},
		"NUL in a header":      {"GET /healthz HTTP/1.1\r\nHost: test\r\nX-A: a\x00b\r\n\r\n", []int{400}},
		"bad chunk":            {"POST /api/v1/push HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", nil},
		"unwanted method":      {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n", []int{404}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := s.dial(t)
			go func() { _, _ = io.WriteString(conn, c.sent) }() // the server may hang up in the middle
			said := rest(t, conn)
			if strings.Contains(said, `"keys"`) {
				t.Fatalf("a hidden request was carried out: %.500q", said)
			}
			if c.want != nil && fmt.Sprint(answers(said)) != fmt.Sprint(c.want) {
				t.Errorf("statuses %v, want %v", answers(said), c.want)
			}
			for _, status := range answers(said) {
				if status == http.StatusInternalServerError {
					t.Errorf("status 500: %.500q", said)
				}
			}
		})
	}
}

// TestLengthAndChunks: where both are given the chunks count, as RFC 9112
// says, and what stands behind them belongs to the next request.
func TestLengthAndChunks(t *testing.T) {
	t.Parallel()
	s := impatient(t, soon)
	conn := s.dial(t)
	say(t, conn, "POST /api/v1/alerts HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer "+s.FirstKey+
		"\r\nContent-Type: application/json\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
	got := answers(rest(t, conn))
	if len(got) != 1 || got[0] != http.StatusBadRequest {
		t.Errorf("statuses %v, want 400 for the body {}", got)
	}
}

// TestPathTricks: no path leads to a file, to another route than it says, or
// to another site.
func TestPathTricks(t *testing.T) {
	t.Parallel()
	s := impatient(t, soon)
	for _, path := range []string{
		"//api/v1/me", "/api//v1/me", "/api/v1/./me", "/api/v1/x/../me", "/api/v1/%2e%2e/v1/me", "/%2e%2e/%2e%2e/etc/passwd", "/static/../../../etc/passwd",
		"/static/..%2f..%2f..%2fetc%2fpasswd", "/static/%2e%2e%2fapp.css", "/blobs/..%2f..%2fwhetstone.db", "/blobs/%2e%2e/%2e%2e/whetstone.db", "/blobs/sha256/00/../../../whetstone.db",
		"/api/v1/me%00", "/api/v1/me/%00", "/%00", "/api/v1/me;x=y", "/api/v1/ME", "/API/v1/me", "//evil.example/", "/\\evil.example", "/%5cevil.example", "/healthz/..%2fapi%2fv1%2fme",
		"http://evil.example/api/v1/me", "*",
	} {
		conn := s.dial(t)
		say(t, conn, "GET "+path+" HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAuthorization: Bearer "+s.FirstKey+"\r\n\r\n")
		said := rest(t, conn)
		got := answers(said)
		if len(got) != 1 || got[0] >= 500 || strings.Contains(said, "root:") || strings.Contains(said, "SQLite format") || strings.Contains(said, "evil.example/\r\n") {
			t.Errorf("%s: %v %.300q", path, got, said)
		}
		absolute := strings.HasPrefix(path, "http://") // its host is the request's
		if strings.Contains(said, "owner@localhost") && !absolute {
			t.Errorf("%s reached the route of another path: %.300q", path, said)
		}
	}
}

// TestHostIsNotBelieved: whatever name a request calls us by, the addresses we
// give out are our own.
func TestHostIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := start(t, settings(t, "--roles", "web"))
	for _, r := range []string{
		"POST /api/v1/device-code HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\nContent-Length: 17\r\n", "GET / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n",
		"GET /.well-known/agent-skills/index.json HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: evil.example\r\nContent-Length: 0\r\n", "GET /docs HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n",
	} {
		conn := s.dial(t)
		say(t, conn, r+"Connection: close\r\n\r\n")
		if strings.HasPrefix(r, "POST") {
			say(t, conn, `{"client_id":"a"}`)
		}
		if said := rest(t, conn); strings.Contains(said, "evil.example") || len(answers(said)) != 1 || bytes.Contains([]byte(said), []byte("HTTP/1.1 5")) {
			t.Errorf("%.40q: %.500q", r, said)
		}
	}
}
