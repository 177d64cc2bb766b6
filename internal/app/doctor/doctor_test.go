package doctor

import (
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/exam"
)

// TestThresholds checks findings about what a test cannot break: the clock and
// the disk. internal/app tests the others on a whole installation.
func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		got  exam.Finding
		want exam.Status
	}{
		{clockFinding("its", 3*time.Second), exam.Good},
		{clockFinding("its", -30*time.Second), exam.Advice},
		{clockFinding("its", time.Hour), exam.Broken},
		{diskFinding("here", 50<<30, 100<<30, 512<<20), exam.Good},
		{diskFinding("here", 3<<30, 100<<30, 512<<20), exam.Advice},
		{diskFinding("here", 11<<30, 4000<<30, 512<<20), exam.Good},
		{diskFinding("here", 11<<30, 4000<<30, 8<<30), exam.Advice},
		{diskFinding("here", 1<<30, 3<<30, 512<<20), exam.Advice},
		{diskFinding("here", 10<<20, 100<<30, 0), exam.Broken},
		{diskFinding("here", 500<<20, 100<<30, 512<<20), exam.Broken},
	} {
		if c.got.Status != c.want {
			t.Errorf("%+v, want %s", c.got, c.want)
		}
	}
}
