package app_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// each runs the test with flags for a new database of each kind, which is
// storetest.EmptyURL's or storetest.URL's, beside other tests.
func each(t *testing.T, newURL func(testing.TB, string) string, test func(t *testing.T, flags []string)) {
	t.Parallel()
	for _, name := range storetest.Databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, []string{"--database-url", newURL(t, name), "--data", t.TempDir()})
		})
	}
}

func TestFirstStart(t *testing.T) {
	each(t, storetest.EmptyURL, func(t *testing.T, flags []string) {
		first := start(t, settings(t, append(flags, "--plan", "pro")...))
		key := first.FirstKey
		if !strings.HasPrefix(key, "st_live_") {
			t.Fatalf("first key %q", key)
		}
		me := first.me(t, key)
		if me.Organisation.Name != "default" || me.Plan != "pro" || me.Role != "owner" || me.User.Email != "owner@localhost" {
			t.Errorf("the key belongs to %+v, want the owner of default on pro", me)
		}
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
		if log := first.log.String(); strings.Contains(log, key) || strings.Contains(log, hash(key)) {
			t.Errorf("the log has the key or its hash:\n%s", log)
		}

		second := start(t, settings(t, append(flags, "--plan", "free")...))
		if second.FirstKey != "" {
			t.Error("the second start made a key")
		}
		if me := second.me(t, key); me.Plan != "pro" {
			t.Errorf("plan %q after the second start, want pro", me.Plan)
		}
	})
}

func hash(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

func TestBootstrapKey(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		const key = "st_test_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"
		s := start(t, settings(t, append(flags, "--bootstrap-key", key)...))
		if s.FirstKey != key {
			t.Errorf("first key %q, want the operator's", s.FirstKey)
		}
		s.me(t, key)
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		const other = "st_test_another0ne89ABCDEFGHIJKLMNOPQRSTUVWXYZabcde"
		again := start(t, settings(t, append(flags, "--bootstrap-key", other)...))
		again.me(t, key)
		again.wantStatus(t, other, http.StatusUnauthorized, "/api/v1/me")
	})
}

// TestReplicasStartAtOnce: one of them makes the first organisation, and its
// key opens both.
func TestReplicasStartAtOnce(t *testing.T) {
	flags := []string{"--database-url", storetest.EmptyURL(t, "postgres"), "--secret-key", sealtest.Key(0)}
	replicas := make([]*app.App, 2)
	var g errgroup.Group
	for i := range replicas {
		o := options(settings(t, append(flags, "--data", t.TempDir())...), io.Discard)
		g.Go(func() (err error) {
			replicas[i], err = app.New(t.Context(), o)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	key := replicas[0].FirstKey + replicas[1].FirstKey
	if len(key) != len("st_live_")+43 {
		t.Fatalf("first keys %q and %q, want one", replicas[0].FirstKey, replicas[1].FirstKey)
	}
	for _, a := range replicas {
		run(t, a, &apptest.Buffer{}).me(t, key)
	}
}

type me struct {
	User         struct{ Email string }
	Organisation struct{ Name string }
	Plan, Role   string
}

func (s *service) me(t *testing.T, key string) (m me) {
	t.Helper()
	status, body := s.get(t, "/api/v1/me", key)
	if err := json.Unmarshal([]byte(body), &m); err != nil || status != http.StatusOK {
		t.Fatalf("GET /api/v1/me: %d %s", status, body)
	}
	return m
}

func TestRoles(t *testing.T) {
	service := []string{"/healthz", "/readyz", "/metrics"}
	others := []string{"/openapi.json", "/docs"}
	t.Run("worker", func(t *testing.T) {
		s := start(t, settings(t, "--roles", "worker"))
		s.wantStatus(t, "", http.StatusOK, service...)
		s.wantStatus(t, s.FirstKey, http.StatusNotFound, append(others, "/api/v1/me", "/blobs/x", "/")...)
	})
	t.Run("web", func(t *testing.T) {
		s := start(t, settings(t, "--roles", "web"))
		s.wantStatus(t, "", http.StatusOK, append(service, others...)...)
		s.wantStatus(t, s.FirstKey, http.StatusOK, "/api/v1/me")
	})
	t.Run("both", func(t *testing.T) {
		s := start(t, settings(t))
		s.wantStatus(t, "", http.StatusOK, append(service, others...)...)
		s.wantStatus(t, s.FirstKey, http.StatusOK, "/api/v1/me")
	})
}

func TestAddresses(t *testing.T) {
	s := start(t, settings(t, "--public-url", "https://w.example/base/"))
	if s.URL() != "https://w.example/base" {
		t.Errorf("URL() = %q, want the public one without the slash", s.URL())
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.ListenURL(), "http://"))
	if err != nil || host != "127.0.0.1" || port == "0" {
		t.Errorf("ListenURL() = %q, want a port of 127.0.0.1", s.ListenURL())
	}
	if local := start(t, settings(t)); local.URL() != local.ListenURL() {
		t.Errorf("URL() = %q without a public one, want %q", local.URL(), local.ListenURL())
	}
}

func TestMetrics(t *testing.T) {
	s := start(t, settings(t))
	s.me(t, s.FirstKey)
	_, page := s.get(t, "/metrics", "")
	for _, want := range []string{
		`whetstone_http_requests_total{route="GET /api/v1/me",status="200"} 1`,
		`whetstone_database_connections{state="open"}`, "go_goroutines", "process_open_fds",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

func TestStartFails(t *testing.T) {
	for _, c := range []struct {
		name, want string
		flags      []string
	}{
		{"address in use", "addr: listen tcp", []string{"--addr", busyAddress(t)}},
		{"database away", "open database", []string{"--database-url", "postgres://u:hunter2@127.0.0.1:1/w"}},
		{"blobs in nowhere", "open blobs", []string{"--blob-url", "s3://bucket?region=eu&endpoint=http://127.0.0.1:1"}},
		{"bad key", "bootstrap-key must be", []string{"--bootstrap-key", "hunter2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := settings(t)
			a, err := app.New(t.Context(), options(settings(t, append([]string{"--data", good.Data}, c.flags...)...), io.Discard))
			if err == nil || a != nil {
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error %q, want %q in it and no secret", err, c.want)
			}
			start(t, good) // nothing is left that would be in the way
		})
	}
}

// busyAddress is an address that somebody listens on.
func busyAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestStopLetsRequestsEnd stops while a request is half sent.
func TestStopLetsRequestsEnd(t *testing.T) {
	s := start(t, settings(t))
	const body = `{"name":"late"}`
	r := s.halfRequest(t, body)
	ended := make(chan error, 1)
	go func() { ended <- s.stop() }()
	s.waitUntilRefused(t)
	if _, err := io.WriteString(r.conn, body); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(r.answer, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Errorf("status %d, want 201", res.StatusCode)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestStopCutsOffWhatNeverEnds(t *testing.T) {
	s := start(t, settings(t, "--drain-timeout", "10ms"))
	r := s.halfRequest(t, `{"name":"never"}`)
	if err := s.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := http.ReadResponse(r.answer, nil); err == nil {
		t.Error("the request was answered")
	}
	if !strings.Contains(s.log.String(), "requests were cut off") {
		t.Errorf("the log does not say so:\n%s", s.log)
	}
}

// halfSent is a request whose body is still to come.
type halfSent struct {
	conn   net.Conn
	answer *bufio.Reader
}

// halfRequest sends the head of a request and waits until the service asks
// for its body: then it is in the middle of it.
func (s *service) halfRequest(t *testing.T, body string) halfSent {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /api/v1/keys HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", s.FirstKey, len(body))
	if err != nil {
		t.Fatal(err)
	}
	answer := bufio.NewReader(conn)
	line, err := answer.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v; want to be asked for the body", line, err)
	}
	if _, err := answer.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return halfSent{conn, answer}
}

// waitUntilRefused returns when the service takes no more connections.
func (s *service) waitUntilRefused(t *testing.T) {
	t.Helper()
	for t.Context().Err() == nil {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}
