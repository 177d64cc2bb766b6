package jobs

import (
	"testing"
	"time"
)

// TestReaper checks that a worker reaps others only if its own heartbeats were
// on time.
func TestReaper(t *testing.T) {
	t.Parallel()
	r := reaper{lease: 30 * time.Second}
	start := time.Now()
	for _, heartbeat := range []struct {
		at   time.Duration
		want bool
	}{
		{0, true},
		{10 * time.Second, true},
		{20 * time.Second, true},
		{50 * time.Second, false}, // the database was unreachable
		{60 * time.Second, false},
		{70 * time.Second, false},
		{80 * time.Second, true}, // the others had a lease's time
		{90 * time.Second, true},
	} {
		if got := r.mayReap(start.Add(heartbeat.at)); got != heartbeat.want {
			t.Errorf("after %s: %t, want %t", heartbeat.at, got, heartbeat.want)
		}
	}
}

func TestHasExited(t *testing.T) {
	t.Parallel()
	const own = "web/1/AAAA/x"
	for id, want := range map[string]bool{
		own:                     false,
		"web/1/AAAA/y":          false, // another queue of this process
		"web/1/BBBB/x":          true,  // the process id was reused
		"web/4194999/BBBB/x":    true,  // above the largest process id of Linux
		"web/nonsense/BBBB/x":   false,
		"other/4194999/BBBB/x":  false, // of another machine
		"of an older version/1": false,
	} {
		if got := hasExited(id, own); got != want {
			t.Errorf("hasExited(%q) = %t, want %t", id, got, want)
		}
	}
}
