package doctor

import (
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
)

// TestThresholds checks findings about what a test cannot break: the clock and
// the disk. internal/app tests the others on a whole installation.
func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		got  invariants.Finding
		want invariants.Status
	}{
		{clockFinding("its", 3*time.Second), invariants.Good},
		{clockFinding("its", -30*time.Second), invariants.Advice},
		{clockFinding("its", time.Hour), invariants.Broken},
		{diskFinding("here", 50<<30, 100<<30, 512<<20), invariants.Good},
		{diskFinding("here", 3<<30, 100<<30, 512<<20), invariants.Advice},
		{diskFinding("here", 11<<30, 4000<<30, 512<<20), invariants.Good},
		{diskFinding("here", 11<<30, 4000<<30, 8<<30), invariants.Advice},
		{diskFinding("here", 1<<30, 3<<30, 512<<20), invariants.Advice},
		{diskFinding("here", 10<<20, 100<<30, 0), invariants.Broken},
		{diskFinding("here", 500<<20, 100<<30, 512<<20), invariants.Broken},
	} {
		if c.got.Status != c.want {
			t.Errorf("%+v, want %s", c.got, c.want)
		}
	}
}
