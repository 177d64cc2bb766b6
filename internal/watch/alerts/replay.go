package alerts

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A Sample is a skill's figures at the end of a day; its pass rate is over
// WindowDays.
type Sample struct {
	At time.Time
	skills.WindowStats
	// DaySessions were graded on the day itself, with DayPassRate in the mean.
	DaySessions int
	DayPassRate float64
}

// Replayable reports whether the rule can be replayed over samples, which have no
// versions, costs or offers.
func (r Rule) Replayable() bool { return r.Type == PassRateBelow || r.Type == NoData }

// Replay runs the state machine over past samples of a skill, oldest first, and
// reports for each whether the rule would have been firing. Rules are evaluated
// more often than samples are taken, so each sample counts resolveAfter times.
func (r Rule) Replay(samples []Sample) []bool {
	state := State{State: ok}
	fired := make([]bool, len(samples))
	var past pastEvidence
	for i, sample := range samples {
		f := figures{WindowStats: sample.WindowStats}
		if r.Sensitivity == Sequential {
			f.evidence = past.add(r.Threshold, sample)
		}
		v := r.evaluate(f, sample.At)
		for range resolveAfter {
			state, _, _ = state.next(v, sample.At, false)
		}
		fired[i] = state.State == firing
	}
	return fired
}

// pastEvidence is gathered from whole days, in which the single sessions are not
// known any more: as if each had passed or failed.
type pastEvidence struct {
	days []gradedDay
	walk walk
}

func (p *pastEvidence) add(threshold float64, s Sample) Evidence {
	before := paceOf(p.days)
	c := newCusum(threshold, dispersion(p.days[max(0, len(p.days)-dispersionDays):]))
	for i := range s.DaySessions {
		p.walk.add(c, s.DayPassRate, before.weekly(i+1))
	}
	passed := s.DayPassRate * float64(s.DaySessions)
	p.days = append(p.days, gradedDay{s.DaySessions, passed, passed})
	return p.walk.evidence()
}
