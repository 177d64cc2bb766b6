package jobs

import (
	"testing"
	"time"
)

// TestPulse has a worker judge others only when it was never away itself.
func TestPulse(t *testing.T) {
	t.Parallel()
	p := pulse{lease: 30 * time.Second}
	start := time.Now()
	for _, beat := range []struct {
		at   time.Duration
		want bool
	}{
		{0, true},
		{10 * time.Second, true},
		{20 * time.Second, true},
		{50 * time.Second, false}, // the database was away
		{60 * time.Second, false},
		{70 * time.Second, false},
		{80 * time.Second, true}, // the others have had a lease
		{90 * time.Second, true},
	} {
		if got := p.felt(start.Add(beat.at)); got != beat.want {
			t.Errorf("after %s: %t, want %t", beat.at, got, beat.want)
		}
	}
}
