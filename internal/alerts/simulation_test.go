package alerts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/skills"
)

// The simulation measures how many false alarms a rule gives, and how soon it
// detects a fall, with the threshold 0.8 and skills that pass 90 % of their
// sessions.
const soundRate = 0.9

// simulated is a skill under a rule, evaluated after every session, twice: there
// are more evaluations than sessions.
type simulated struct {
	random   *rand.Rand
	rule     Rule
	perDay   int
	spread   float64 // standard deviation of a day's rate
	days     []gradedDay
	state    State
	evidence float64
	sessions int

	keepResults bool
}

// simulatedDay is what came of a day.
type simulatedDay struct {
	fired   int // after how many sessions it fired first, 0 if it did not
	alarms  int
	results []float64
}

func (s *simulated) day(rate float64) (d simulatedDay) {
	var week gradedDay // the days of the window before this one
	for _, before := range s.days[max(0, len(s.days)-WindowDays+1):] {
		week.sessions += before.sessions
		week.sum += before.sum
	}
	c := gradedDays{all: s.days}.cusum(s.rule.Threshold, len(s.days))
	today := gradedDay{}
	p := min(max(rate+s.spread*s.random.NormFloat64(), 0), 1)
	for i := range s.perDay {
		x := 0.0
		if s.random.Float64() < p {
			x = 1
		}
		if s.keepResults {
			d.results = append(d.results, x)
		}
		today.sessions++
		today.sum += x
		today.squares += x * x
		s.sessions++
		s.evidence = c.add(s.evidence, x)
		graded := week.sessions + today.sessions
		passRate := (week.sum + today.sum) / float64(graded)
		v := s.rule.evaluate(figures{
			WindowStats: skills.WindowStats{PassRate: &passRate, GradedSessions: int64(graded)},
			evidence:    Evidence{Sum: &s.evidence, Limit: &c.limit, Sessions: s.sessions},
		}, noon)
		for range resolveAfter {
			var t Transition
			if s.state, t, _ = s.state.next(v, noon, false); t == Firing {
				d.alarms++
				if d.fired == 0 {
					d.fired = i + 1
				}
			}
		}
	}
	if len(s.days) == evidenceDays+dispersionDays { // no more is looked at
		s.days = append(s.days[:0], s.days[1:]...)
	}
	s.days = append(s.days, today)
	return d
}

// simulate returns the false alarms in 1,000 skill-weeks, and the median of the
// sessions until a fall of so many points is noticed.
func simulate(rule Rule, perDay int, spread, fall float64, skills, weeks int) (falseAlarms float64, median int) {
	alarms := 0
	var delays []int
	for i := range skills {
		s := &simulated{random: rand.New(rand.NewPCG(7, uint64(i))), rule: rule, perDay: perDay, spread: spread} // a simulation
		for range dispersionDays {                                                                               // the dispersion becomes known
			s.day(soundRate)
		}
		s.state, s.evidence = State{}, 0
		for range weeks * 7 {
			alarms += s.day(soundRate).alarms
		}
		s.state, s.evidence = State{}, 0
		for d := range 60 {
			if n := s.day(soundRate - fall).fired; n > 0 {
				delays = append(delays, d*perDay+n)
				break
			}
		}
	}
	slices.Sort(delays)
	median = math.MaxInt
	if len(delays) > skills/2 {
		median = delays[skills/2]
	}
	return float64(alarms) / float64(skills*max(weeks, 1)) * 1000, median
}

// simulateTable prints the table of docs/alerts.md, and holds the promises of the
// sequential rule.
func simulateTable(t testing.TB, skills, weeks int) {
	for _, spread := range []float64{0, 0.05} {
		for _, sensitivity := range sensitivities {
			rule := Rule{Type: PassRateBelow, Threshold: 0.8, Sensitivity: sensitivity}
			var row strings.Builder
			fmt.Fprintf(&row, "| `%s`, days differ by %.0f points |", sensitivity, spread*100)
			for _, perDay := range []int{5, 20, 100} {
				alarms, d20 := simulate(rule, perDay, spread, 0.2, skills, weeks)
				_, d30 := simulate(rule, perDay, spread, 0.3, skills, 0)
				_, d40 := simulate(rule, perDay, spread, 0.4, skills, 0)
				fmt.Fprintf(&row, " %.1f; %d/%d/%d |", alarms, d20, d30, d40)
				if sensitivity != Sequential {
					continue
				}
				if alarms > 3 {
					t.Errorf("%d a day, spread %.2f: %.1f false alarms in 1,000 skill-weeks", perDay, spread, alarms)
				}
				if spread == 0 && (d20 > 80 || d30 > 42 || d40 > 30) {
					t.Errorf("%d a day: falls are noticed after %d/%d/%d sessions", perDay, d20, d30, d40)
				}
			}
			t.Log(row.String())
		}
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	simulateTable(t, 40, 25)
}

// BenchmarkSimulation is the table over 10,000 skill-weeks.
func BenchmarkSimulation(b *testing.B) {
	for b.Loop() {
		simulateTable(b, 200, 50)
	}
}
