package cluster_test

import (
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestTorturePostgres kills PostgreSQL at random moments, under two processes.
func TestTorturePostgres(t *testing.T) {
	t.Parallel()
	skipOn(t, "sqlite")
	p := storetest.StartPostgres(t)
	s := newSite(t, plan{Database: p.URL, S3: servertest.StartS3(t)})
	s.start()
	s.start()
	l := newLoad(t, s)
	r := &record{what: "SIGKILL of PostgreSQL, two processes"}
	random := newRand()
	l.start(t.Context())
	for end := time.Now().Add(tortureDuration(2 * time.Second)); time.Now().Before(end); {
		pause(t, between(random, 300*time.Millisecond, 2*time.Second))
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		r.kills++
		killed := time.Now()
		pause(t, between(random, 0, 500*time.Millisecond))
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		r.awaitAnswer(t, s, killed)
	}
	r.print(t, l, audit(t, l))
}

// skipOn skips a torture test that is not about the chosen database.
func skipOn(t *testing.T, kind string) {
	t.Helper()
	if *database == kind {
		t.Skip("not on " + kind)
	}
}

// TestTortureS3 stops the S3 server for a while, repeatedly.
func TestTortureS3(t *testing.T) {
	t.Parallel()
	bucket := servertest.StartS3(t)
	s := newSite(t, plan{S3: bucket})
	s.start()
	l := newLoad(t, s)
	r := &record{what: "S3 away for a while, sqlite"}
	random := newRand()
	l.start(t.Context())
	for end := time.Now().Add(tortureDuration(2 * time.Second)); time.Now().Before(end); {
		pause(t, between(random, 300*time.Millisecond, 2*time.Second))
		if err := bucket.Stop(); err != nil {
			t.Fatal(err)
		}
		r.kills++
		pause(t, between(random, 500*time.Millisecond, 2*time.Second))
		back := time.Now()
		if err := bucket.Start(); err != nil {
			t.Fatal(err)
		}
		r.awaitReady(t, s, back)
	}
	r.print(t, l, audit(t, l))
}
