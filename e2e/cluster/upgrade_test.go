package cluster_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

var restarts = flag.Int("restarts", 20, "how many processes TestRollingUpgrade replaces")

// versionBefore is the program of the version before this one, which
// scripts/version-before builds.
func versionBefore(t *testing.T) string {
	t.Helper()
	before := os.Getenv("WHETSTONE_BEFORE")
	if before == "" {
		t.Skip("needs the version before, which takes minutes to build: make e2e-upgrade")
	}
	return before
}

// TestRollingUpgrade replaces processes of the version before by processes of this
// one, and back, while clients read and write. As a load balancer does in a
// deployment, ours sends a process no more requests before it is stopped. No
// request may fail, though none is retried, and no write may be lost.
func TestRollingUpgrade(t *testing.T) {
	before := versionBefore(t)
	s := newSite(t, plan{Database: storetest.EmptyURL(t, "postgres"), S3: servertest.StartS3(t), Binary: before})
	s.start()
	s.start()
	l := newLoad(t, s)
	l.start(t.Context())
	readers := readAlong(t, s)
	r := &record{what: "rolling upgrade and downgrade of two processes"}
	for r.kills < *restarts {
		s.command.Path = binary
		if r.kills/2%2 == 1 { // two up, two down
			s.command.Path = before
		}
		old := s.all()[0]
		s.start()
		s.balancer.Drain(old)
		if err := old.Terminate(); err != nil {
			t.Fatal(err)
		}
		s.forget(old)
		r.kills++
	}
	reads, _ := readers()
	s.command.Path = binary // examines the data at the end
	tallies := audit(t, l)
	failed, all := s.seen.failures()
	if failed > 0 || reads == 0 {
		t.Errorf("%d of %d requests failed: %v", failed, all, s.seen.statuses)
	}
	r.print(t, l, tallies)
	t.Logf("requests while processes were replaced: %d, failed: %d", all, failed)
}

// TestUpgradeAndBack starts this version and the one before in turns on the same
// data folder.
func TestUpgradeAndBack(t *testing.T) {
	before := versionBefore(t)
	s := newSite(t, plan{Binary: before})
	s.start()
	l := newLoad(t, s)
	l.start(t.Context())
	r := &record{what: "upgrade and downgrade of the only process, SQLite"}
	for range 6 {
		s.command.Path = binary
		if r.kills%2 == 1 {
			s.command.Path = before
		}
		old := s.all()[0]
		if err := old.Terminate(); err != nil {
			t.Fatal(err)
		}
		s.forget(old)
		stopped := time.Now()
		s.start()
		r.kills++
		r.awaitAnswer(t, s, stopped)
		pause(t, time.Second) // some writes
	}
	s.command.Path = binary
	r.print(t, l, audit(t, l))
}
