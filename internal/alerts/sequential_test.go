package alerts

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
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

// sequentialSkill plays a skill under the sequential rule, a day at a time, with the
// dispersion estimated from the days before.
type sequentialSkill struct {
	*rand.Rand
	perDay   int
	spread   float64 // standard deviation of a day's rate
	days     []gradedDay
	evidence float64
	graded   int
	firing   bool
}

// day plays one day, and returns after how many sessions the rule fired, 0 if it did not.
func (s *sequentialSkill) day(rate float64) (fired int) {
	week := 0
	for _, d := range s.days[max(0, len(s.days)-7):] {
		week += d.sessions
	}
	c := newCusum(0.8, dispersion(s.days[max(0, len(s.days)-dispersionDays):]), week)
	today := gradedDay{}
	p := min(max(rate+s.spread*s.NormFloat64(), 0), 1)
	for i := range s.perDay {
		x := 0.0
		if s.Float64() < p {
			x = 1
		}
		today.sessions++
		today.sum += x
		today.squares += x * x
		s.graded++
		s.evidence = c.add(s.evidence, x)
		switch {
		case !s.firing && s.evidence >= c.limit && s.graded >= minGraded:
			s.firing = true
			if fired == 0 {
				fired = i + 1
			}
		case s.firing && s.evidence <= c.limit*evidenceOfResolve:
			s.firing = false
		}
	}
	s.days = append(s.days, today)
	return fired
}

// simulateSequential returns the false alarms in 1,000 skill-weeks, and the median of
// the sessions until a fall of so many points is noticed.
func simulateSequential(perDay int, spread, fall float64, weeks int) (falseAlarms float64, median int) {
	const skills = 400
	alarms := 0
	var delays []int
	for i := range skills {
		s := &sequentialSkill{Rand: rand.New(rand.NewPCG(7, uint64(i))), perDay: perDay, spread: spread}
		for range 28 { // the dispersion becomes known
			s.day(soundRate)
		}
		s.evidence, s.firing = 0, false
		for range weeks * 7 {
			if s.day(soundRate) > 0 {
				alarms++
			}
		}
		s.evidence, s.firing = 0, false
		for d := range 60 {
			if n := s.day(soundRate - fall); n > 0 {
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
	return float64(alarms) / float64(skills*weeks) * 1000, median
}

func TestSequential(t *testing.T) {
	for _, spread := range []float64{0, 0.05} {
		for _, perDay := range []int{5, 20, 100} {
			alarms, d20 := simulateSequential(perDay, spread, 0.2, 100)
			_, d30 := simulateSequential(perDay, spread, 0.3, 1)
			_, d40 := simulateSequential(perDay, spread, 0.4, 1)
			t.Logf("%3d a day, spread %.2f: %.2f false alarms in 1,000 skill-weeks; %d/%d/%d sessions", perDay, spread, alarms, d20, d30, d40)
		}
	}
}
