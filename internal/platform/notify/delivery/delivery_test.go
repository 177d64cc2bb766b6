package delivery_test

import (
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
)

// TestBackoff checks the documented backoff, and Retry-After.
func TestBackoff(t *testing.T) {
	waits := delivery.DefaultBackoff()
	for i, planned := range []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
	} {
		seen := map[time.Duration]bool{}
		for range 100 {
			got := waits.Wait(i+1, 0)
			if got < planned-planned/10 || got > planned+planned/10 {
				t.Errorf("after attempt %d: %v, want %v give or take a tenth", i+1, got, planned)
			}
			seen[got] = true
		}
		if len(seen) < 10 {
			t.Errorf("after attempt %d: only %d different waits", i+1, len(seen))
		}
		if got := waits.Wait(i+1, 11*time.Hour+time.Second); got != 11*time.Hour+time.Second {
			t.Errorf("after attempt %d: %v, want what the target asks for", i+1, got)
		}
	}
}
