package alerts

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

func TestCusumSteps(t *testing.T) {
	for _, want := range []struct{ threshold, pass, fail, shift, slack float64 }{
		{0.8, -0.3409, 1.2809, 0.8109, 2.16},
		{0.6, -0.3548, 0.5288, 0.4418, 2.63},
		{0.95, -0.1006, 1.6994, 0.9, 2.80},
		{0.1, -1.4469, 0.1749, 0.8109, 2.67},
		{0.65, -0.3382, 0.6210, 0.4796, (2.63 + 2.45) / 2},
	} {
		c := newCusum(want.threshold, 1)
		q := 1 - want.threshold
		shift := logit(q) - logit(1-soundRate(want.threshold))
		if math.Abs(shift-want.shift) > 0.0005 || math.Abs(c.slack-want.slack) > 1e-9 {
			t.Errorf("%.2f: shift %.4f, slack %.3f; want %.4f, %.3f", want.threshold, shift, c.slack, want.shift, want.slack)
		}
		if math.Abs(c.pass-want.pass) > 0.0005 || math.Abs(c.fail-want.fail) > 0.0005 {
			t.Errorf("%.2f: pass %.4f, fail %.4f; want %.4f, %.4f", want.threshold, c.pass, c.fail, want.pass, want.fail)
		}
	}
	if got, want := newCusum(0.8, 2).limit(35), math.Log(17_500)-2.16; math.Abs(got-want) > 1e-9 {
		t.Errorf("limit %.3f, want %.3f", got, want)
	}
	if c := newCusum(0.8, 1); c.limit(0) != c.limit(5) {
		t.Errorf("limit %.3f without a session, %.3f of five", c.limit(0), c.limit(5))
	}
}

// TestPace: n is what a week of the busiest day would have, unless the week has more.
func TestPace(t *testing.T) {
	daily := func(days, sessions int) (all []gradedDay) {
		for range days {
			all = append(all, gradedDay{sessions: sessions})
		}
		return all
	}
	for name, c := range map[string]struct {
		before      []gradedDay
		today, want int
	}{
		"one a day":       {daily(28, 1), 1, 7},
		"five a day":      {daily(28, 5), 5, 35},
		"first session":   {nil, 1, 1},
		"busy first day":  {nil, 100, 630},
		"many more today": {daily(28, 5), 100, 630},
		"the day after":   {append(daily(27, 5), gradedDay{sessions: 100}), 1, 630},
		"after a pause":   {append(daily(7, 100), daily(14, 0)...), 1, 630},
		"after a month":   {append(daily(7, 100), daily(28, 0)...), 1, 1},
	} {
		if got := paceOf(c.before).weekly(c.today); got != c.want {
			t.Errorf("%s: %d a week, want %d", name, got, c.want)
		}
	}
}

// TestGatherEvidence goes through a month of sessions step by step, as the
// simulation does, and wants the same of the sessions as they are stored.
func TestGatherEvidence(t *testing.T) {
	s := simulated{random: rand.New(rand.NewPCG(1, 2)), threshold: 0.8, keep: true} // a simulation
	var all []skills.GradedSession
	start := noon.Truncate(day).AddDate(0, 0, 1-evidenceDays)
	for d := range evidenceDays {
		rate := 0.9
		if d > 20 {
			rate = 0.75
		}
		s.day(10, rate)
		for _, x := range s.results {
			at := start.AddDate(0, 0, d).Add(time.Duration(len(all)%10) * time.Minute)
			all = append(all, skills.GradedSession{At: at, PassRate: x, VersionID: "v"})
		}
	}
	now := start.AddDate(0, 0, evidenceDays-1).Add(23 * time.Hour)
	// What is older than the evidence is left out, as are other versions.
	all = append([]skills.GradedSession{{At: now.AddDate(0, 0, -40), PassRate: 0, VersionID: "v"}}, all...)
	got := gatherEvidence(all[1:], 0.8, registry.Lineage{CurrentID: "v", Since: start}, 0, 0, now)
	if got.Sum == nil || math.Abs(*got.Sum-s.walk.sum) > 1e-9 || *got.Limit != s.walk.limit || got.Sessions != len(all)-1 {
		t.Errorf("got %v of %d sessions, want %v of %d", got.Sum, got.Sessions, s.walk.sum, len(all)-1)
	}
	since := start.AddDate(0, 0, 24)
	if got := gatherEvidence(all, 0.8, registry.Lineage{CurrentID: "v", Since: since}, 0, 0, now); got.Sessions != 4*10 {
		t.Errorf("since the version: %d sessions, want 40", got.Sessions)
	}
	if got := gatherEvidence(all, 0.8, registry.Lineage{CurrentID: "w"}, 0, 0, now); got.Sum != nil || got.verdict() != insufficient {
		t.Errorf("another version: %v, want nothing", got)
	}
	if got := gatherEvidence(nil, 0.8, registry.Lineage{}, 0, 0, now); got.verdict() != insufficient {
		t.Errorf("no sessions: %v", got)
	}
}
