package alerts

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skills"
)

// The simulation measures how many false alarms a rule gives, and how soon it
// detects a drop: 1,000 skills, 12 weeks each, five graded sessions a day, evaluated
// after every session, threshold 0.8.
const (
	simulatedSkills = 1_000
	simulatedWeeks  = 12
	sessionsPerDay  = 5
	soundRate       = 0.9
	brokenRate      = 0.6
)

// simulated is a skill with the results of its last week.
type simulated struct {
	random  *rand.Rand
	verdict []bool
	state   State
	now     time.Time
}

// session adds one session that passes with probability p, and returns the
// transition of the rule.
func (s *simulated) session(r Rule, p float64) Transition {
	s.now = s.now.Add(24 * time.Hour / sessionsPerDay)
	s.verdict = append(s.verdict, s.random.Float64() < p)
	if len(s.verdict) > WindowDays*sessionsPerDay {
		s.verdict = s.verdict[1:]
	}
	passed := 0
	for _, ok := range s.verdict {
		if ok {
			passed++
		}
	}
	rate := float64(passed) / float64(len(s.verdict))
	v := r.evaluate(skills.WindowStats{PassRate: &rate, GradedSessions: int64(len(s.verdict))}, s.now)
	var t Transition
	s.state, t, _ = s.state.next(v, s.now)
	return t
}

func simulate(r Rule, seed uint64) (falseAlarms int, delays []int) {
	for i := range simulatedSkills {
		s := &simulated{random: rand.New(rand.NewPCG(seed, uint64(i))), state: State{State: ok}, now: noon} // a simulation
		for range simulatedWeeks * 7 * sessionsPerDay {
			if s.session(r, soundRate) == Firing {
				falseAlarms++
			}
		}
		s.state = State{State: ok}
		for n := 1; ; n++ {
			if s.session(r, brokenRate) == Firing {
				delays = append(delays, n)
				break
			}
		}
	}
	slices.Sort(delays)
	return falseAlarms, delays
}

// BenchmarkSimulation prints the figures of docs/alerts.md.
func BenchmarkSimulation(b *testing.B) {
	for _, sensitivity := range []Sensitivity{Point, Confident} {
		b.Run(string(sensitivity), func(b *testing.B) {
			r := Rule{Type: PassRateBelow, Threshold: 0.8, Sensitivity: sensitivity}
			for b.Loop() {
				alarms, delays := simulate(r, 1)
				b.ReportMetric(float64(alarms)/(simulatedSkills*simulatedWeeks)*1_000, "false-alarms/1000-skill-weeks")
				b.ReportMetric(float64(delays[len(delays)/2]), "sessions-to-detect-median")
				b.ReportMetric(float64(delays[len(delays)*9/10]), "sessions-to-detect-p90")
			}
		})
	}
}

// TestSimulation checks the documented figure of the default.
func TestSimulation(t *testing.T) {
	_, delays := simulate(Rule{Type: PassRateBelow, Threshold: 0.8, Sensitivity: Point}, 1)
	if median := delays[len(delays)/2]; median > 15 {
		t.Errorf("a fall from 0.9 to 0.6 is detected after %d graded sessions in the median, want 15 at most", median)
	}
}
