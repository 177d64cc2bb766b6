package cluster_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

// tortureDuration is how long a torture test runs, without the final comparison.
func tortureDuration(short time.Duration) time.Duration { return cmp.Or(*tortureTime, short) }

// onDatabases runs a torture test on both databases, or on the one of the flag.
func onDatabases(t *testing.T, torture func(t *testing.T, kind string)) {
	t.Helper()
	for _, kind := range []string{"sqlite", "postgres"} {
		if *database != "" && *database != kind {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			torture(t, kind)
		})
	}
}

// newRand has the seed of the flag, so that a run can be repeated.
func newRand() *rand.Rand { return rand.New(rand.NewPCG(uint64(*seed), 1)) } // not a secret

// between is a random duration.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}

// TestTortureKill kills the only process at random moments, also while it
// starts.
func TestTortureKill(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, kind string) {
		s := newSite(t, plan{Database: databaseURL(t, kind)})
		server := s.start()
		l := newLoad(t, s)
		r := &record{what: "SIGKILL of the only process, " + kind}
		random := newRand()
		l.start(t.Context())
		for end := time.Now().Add(tortureDuration(2 * time.Second)); time.Now().Before(end); {
			pause(t, between(random, 50*time.Millisecond, 1200*time.Millisecond))
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			s.forget(server)
			r.kills++
			if random.IntN(4) == 0 {
				killAtStart(t, s, between(random, 0, 400*time.Millisecond))
				r.kills++
			}
			killed := time.Now()
			server = s.start()
			r.awaitAnswer(t, s, killed)
		}
		r.print(t, l, audit(t, l))
	})
}

// pause waits, but not longer than the test lasts.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal("the test is over")
	case <-time.After(d):
	}
}

// killAtStart starts a process and kills it before it answers.
func killAtStart(t *testing.T, s *site, after time.Duration) {
	t.Helper()
	short, err := servertest.Launch(s.command)
	if err != nil {
		t.Fatal(err)
	}
	pause(t, after)
	if err := short.Kill(); err != nil {
		t.Fatal(err)
	}
}

// awaitAnswer waits until a client gets an answer again, and records how long
// that took.
func (r *record) awaitAnswer(t *testing.T, s *site, since time.Time) {
	t.Helper()
	r.await(t, s, "/api/v1/me", since)
}

// awaitReady is awaitAnswer for an outage that clients may not notice: it waits
// until the process reports that it is ready.
func (r *record) awaitReady(t *testing.T, s *site, since time.Time) {
	t.Helper()
	r.await(t, s, "/readyz", since)
}

func (r *record) await(t *testing.T, s *site, path string, since time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settle)
	defer cancel()
	for {
		got, err := s.ask(ctx, http.MethodGet, s.balancer.URL+path, nil)
		if err == nil && got.status == http.StatusOK {
			r.recoveries = append(r.recoveries, time.Since(since))
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("no answer from %s: %d %s, %v", path, got.status, got.body, err)
		}
		pause(t, 5*time.Millisecond)
	}
}
