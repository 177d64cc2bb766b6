package alerts_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rated := func(day int, rate float64, graded int64) alerts.Sample {
		return alerts.Sample{At: noon.AddDate(0, 0, day), WindowStats: skills.WindowStats{PassRate: &rate, GradedSessions: graded}}
	}
	silent := func(day, last int) alerts.Sample {
		at := noon.AddDate(0, 0, last)
		return alerts.Sample{At: noon.AddDate(0, 0, day), WindowStats: skills.WindowStats{LastSeenAt: &at}}
	}
	for name, c := range map[string]struct {
		rule    alerts.Rule
		samples []alerts.Sample
		want    []bool
	}{
		"a rate that falls and recovers": {
			alerts.Rule{Type: alerts.PassRateBelow, Threshold: 0.8, Sensitivity: alerts.Point},
			[]alerts.Sample{rated(0, 0.9, 10), rated(1, 0.7, 10), rated(2, 0.75, 10), rated(3, 0.8, 10)},
			[]bool{false, true, true, false},
		},
		"too little to say begins and ends nothing": {
			alerts.Rule{Type: alerts.PassRateBelow, Threshold: 0.8, Sensitivity: alerts.Point},
			[]alerts.Sample{rated(0, 0, 4), rated(1, 0, 5), rated(2, 1, 4)},
			[]bool{false, true, true},
		},
		"only when it is certain": {
			alerts.Rule{Type: alerts.PassRateBelow, Threshold: 0.8, Sensitivity: alerts.Confident},
			[]alerts.Sample{rated(0, 0.7, 10), rated(1, 0.7, 1000)},
			[]bool{false, true},
		},
		"silence": {
			alerts.Rule{Type: alerts.NoData, Threshold: 2},
			[]alerts.Sample{silent(0, 0), silent(1, 0), silent(2, 0), silent(3, 3)},
			[]bool{false, false, true, false},
		},
		"silence today": {
			alerts.Rule{Type: alerts.NoData},
			[]alerts.Sample{silent(0, 0), silent(1, 0)},
			[]bool{false, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.rule.Replay(c.samples)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
