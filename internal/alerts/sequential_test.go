package alerts

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/registry/lineage"
	"github.com/whetstone-dev/whetstone/internal/skills/graded"
)

func TestCusumSteps(t *testing.T) {
	c := newCusum(0.8, 1, 35)
	if math.Abs(c.pass+0.382) > 0.0005 || math.Abs(c.fail-1.418) > 0.0005 {
		t.Errorf("pass %.3f, fail %.3f; want -0.382, 1.418", c.pass, c.fail)
	}
	if want := math.Log(35_000) - 1.5; math.Abs(c.limit-want) > 1e-9 {
		t.Errorf("limit %.3f, want %.3f", c.limit, want)
	}
}

// TestGatherEvidence goes through a month of sessions step by step, as the
// simulation does, and wants the same of the sessions as they are stored.
func TestGatherEvidence(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // a simulation
	s := simulated{random: random, perDay: 10, keepResults: true, rule: Rule{Type: PassRateBelow, Threshold: 0.8, Sensitivity: Sequential}}
	var all []graded.Session
	start := noon.Truncate(day).AddDate(0, 0, 1-evidenceDays)
	rate := soundRate
	for d := range evidenceDays {
		if d > 20 {
			rate = 0.75
		}
		for _, x := range s.day(rate).results {
			at := start.AddDate(0, 0, d).Add(time.Duration(len(all)%10) * time.Minute)
			all = append(all, graded.Session{At: at, PassRate: x, VersionID: "v"})
		}
	}
	now := start.AddDate(0, 0, evidenceDays-1).Add(23 * time.Hour)
	// What is older than the evidence is left out, as are other versions.
	all = append([]graded.Session{{At: now.AddDate(0, 0, -40), PassRate: 0, VersionID: "v"}}, all...)
	got := gatherEvidence(all[1:], 0.8, lineage.Lineage{CurrentID: "v", Since: start}, now)
	if got.Sum == nil || math.Abs(*got.Sum-s.evidence) > 1e-9 || got.Sessions != len(all)-1 {
		t.Errorf("got %v of %d sessions, want %v of %d", got.Sum, got.Sessions, s.evidence, len(all)-1)
	}
	since := start.AddDate(0, 0, 24)
	if got := gatherEvidence(all, 0.8, lineage.Lineage{CurrentID: "v", Since: since}, now); got.Sessions != 4*10 {
		t.Errorf("since the version: %d sessions, want 40", got.Sessions)
	}
	if got := gatherEvidence(all, 0.8, lineage.Lineage{CurrentID: "w"}, now); got.Sum != nil || got.verdict() != insufficient {
		t.Errorf("another version: %v, want nothing", got)
	}
	if got := gatherEvidence(nil, 0.8, lineage.Lineage{}, now); got.verdict() != insufficient {
		t.Errorf("no sessions: %v", got)
	}
}
