package cluster_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

// TestRollingRestart replaces one process after the other while clients read
// and write. No read may fail, although none is retried, and no write may be
// lost.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{Database: databaseURL(t, "postgres"), S3: servertest.StartS3(t)})
	s.start()
	s.start()
	l := newLoad(t, s)
	l.start(t.Context())
	readers := readAlong(t, s)
	r := &record{what: "rolling restart of two processes, SIGTERM"}
	for end := time.Now().Add(tortureDuration(0)); r.kills < 3 || time.Now().Before(end); {
		old := s.all()[0]
		s.start()
		began := time.Now()
		// The load balancer notices the end when a connection is refused.
		if err := old.Terminate(); err != nil {
			t.Fatal(err)
		}
		s.forget(old)
		r.kills++
		r.recoveries = append(r.recoveries, time.Since(began))
	}
	reads, failed := readers()
	if failed > 0 || reads == 0 {
		t.Errorf("%d of %d reads failed", failed, reads)
	}
	r.print(t, l, audit(t, l))
	t.Logf("reads while processes were replaced: %d, failed: %d", reads, failed)
}

// readAlong reads several pages repeatedly, without retries, until the function
// that it returns is called.
func readAlong(t *testing.T, s *site) (stop func() (reads, failed int64)) {
	t.Helper()
	done := make(chan struct{})
	var wg sync.WaitGroup
	var reads, failed atomic.Int64
	for _, path := range []string{"/api/v1/me", "/v1/skills", "/api/v1/registry", "/api/v1/registry/sync/check", "/healthz"} {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := s.ask(t.Context(), http.MethodGet, s.balancer.URL+path, nil)
				reads.Add(1)
				if err != nil || got.status != http.StatusOK {
					failed.Add(1)
					t.Errorf("GET %s: %d %s %v", path, got.status, got.body, err)
				}
			}
		})
	}
	return func() (int64, int64) {
		close(done)
		wg.Wait()
		return reads.Load(), failed.Load()
	}
}

// TestTortureReplicas kills one of three processes at random.
func TestTortureReplicas(t *testing.T) {
	t.Parallel()
	skipOn(t, "sqlite")
	s := newSite(t, plan{Database: databaseURL(t, "postgres"), S3: servertest.StartS3(t)})
	for range 3 {
		s.start()
	}
	l := newLoad(t, s)
	r := &record{what: "SIGKILL of one of three processes, postgres and S3"}
	random := newRand()
	l.start(t.Context())
	for end := time.Now().Add(tortureDuration(2 * time.Second)); time.Now().Before(end); {
		pause(t, between(random, 100*time.Millisecond, 1500*time.Millisecond))
		victims := s.all()
		victim := victims[random.IntN(len(victims))]
		if err := victim.Kill(); err != nil {
			t.Fatal(err)
		}
		r.kills++
		r.awaitAnswer(t, s, time.Now())
		s.forget(victim)
		s.start()
	}
	r.print(t, l, audit(t, l))
}

// TestSchedules checks that two processes enqueue a schedule's job once an
// interval, and that the remaining one continues when one is killed.
func TestSchedules(t *testing.T) {
	t.Parallel()
	const every = 500 * time.Millisecond
	s := newSite(t, plan{Database: databaseURL(t, "postgres"), Settings: map[string]string{"alert-interval": every.String()}})
	began := time.Now()
	first, second := s.start(), s.start("--data", t.TempDir())
	turns := func(servers ...*servertest.Server) (sum int) {
		for _, server := range servers {
			sum += scheduledRuns(t, s, server)
		}
		return sum
	}
	awaitTurns := func(want int, servers ...*servertest.Server) {
		t.Helper()
		for deadline := time.Now().Add(settle); turns(servers...) < want; pause(t, 20*time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d turns, want %d", turns(servers...), want)
			}
		}
	}
	awaitTurns(5, first, second)
	got, most := turns(first, second), int(time.Since(began)/every)+1
	if got > most {
		t.Errorf("%d turns in %s, want at most one every %s", got, time.Since(began), every)
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	s.forget(first)
	awaitTurns(turns(second)+3, second)
}

// scheduledRuns is how often a process has run the job of a schedule.
func scheduledRuns(t *testing.T, s *site, server *servertest.Server) int {
	t.Helper()
	got, err := s.ask(t.Context(), http.MethodGet, server.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	prefix := fmt.Sprintf("whetstone_job_runs_total{kind=%q,outcome=\"succeeded\"} ", "alerts.evaluate-all")
	for lines := bufio.NewScanner(bytes.NewReader(got.body)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}
