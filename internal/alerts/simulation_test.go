package alerts

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/stats/statstest"
)

// A simulated skill has graded sessions, each of which passes or fails as a whole, and
// rules that are evaluated after each of them.
type simulated struct {
	random    *rand.Rand
	threshold float64
	spread    float64 // standard deviation of a day's rate
	days      []gradedDay
	walk      walk // of the rule that is sequential

	// rule is one of another sensitivity, evaluated instead: twice after each session,
	// since there are more evaluations than sessions.
	rule  *Rule
	state State

	results []float64 // of the last day, if they are kept
	keep    bool
}

// day simulates the graded sessions of a day. It returns how often the rule fired, and
// after how many sessions first, 0 if it did not.
func (s *simulated) day(sessions int, rate float64) (alarms, first int) {
	var week gradedDay // the days of the window before this one
	for _, d := range s.days[max(0, len(s.days)-WindowDays+1):] {
		week.sessions += d.sessions
		week.sum += d.sum
	}
	c := newCusum(s.threshold, dispersion(s.days[max(0, len(s.days)-dispersionDays):]))
	p := rate
	if s.spread > 0 {
		p = min(max(rate+s.spread*s.random.NormFloat64(), 0), 1)
	}
	var today gradedDay
	s.results = s.results[:0]
	for i := range sessions {
		x := 0.0
		if s.random.Float64() < p {
			x = 1
		}
		if s.keep {
			s.results = append(s.results, x)
		}
		today.add(x)
		var fires bool
		if s.rule == nil {
			before := s.walk.reached
			s.walk.add(c, x, week.sessions+today.sessions)
			fires = s.walk.reached && !before
		} else {
			fires = s.evaluate(week.sum+today.sum, week.sessions+today.sessions)
		}
		if fires {
			if alarms++; first == 0 {
				first = i + 1
			}
		}
	}
	if len(s.days) == 2*dispersionDays { // no more is looked at
		s.days = append(s.days[:0], s.days[1:]...)
	}
	s.days = append(s.days, today)
	return alarms, first
}

func (s *simulated) evaluate(passed float64, graded int) (fires bool) {
	rate := passed / float64(graded)
	v := s.rule.evaluate(figures{WindowStats: skills.WindowStats{PassRate: &rate, GradedSessions: int64(graded)}}, noon)
	for range resolveAfter {
		var t Transition
		s.state, t, _ = s.state.next(v, noon, false)
		fires = fires || t == Firing
	}
	return fires
}

// A course is what a simulated skill goes through.
type course struct {
	threshold float64
	above     float64 // how many points the skill is above the threshold; 0: sound
	perDay    int
	spread    float64
	rule      *Rule             // nil: the one that is sequential
	sessions  func(day int) int // of a day; nil: perDay
	fresh     bool              // a new skill: nothing is known of it
	weeks     int               // of each skill
}

// soundRate is the pass rate of a sound skill: ten points above the threshold, or 0.9
// in log odds where that is less.
func soundRate(threshold float64) float64 {
	q := 1 - threshold
	return 1 - max(q-soundMargin, logistic(logit(q)-maxShift))
}

func (c course) rate() float64 {
	if c.above > 0 {
		return c.threshold + c.above
	}
	return soundRate(c.threshold)
}

// skill returns one of the simulated skills. Unless it is new, its dispersion and the
// sessions of its weeks are known.
func (c course) skill(i int) *simulated {
	s := &simulated{random: rand.New(rand.NewPCG(7, uint64(i))), threshold: c.threshold, spread: c.spread, rule: c.rule} // a simulation
	for range dispersionDays {
		if !c.fresh {
			s.day(c.perDay, c.rate())
		}
	}
	s.state, s.walk = State{}, walk{}
	return s
}

// falseAlarms simulates so many skill-weeks.
func (c course) falseAlarms(skillWeeks int) (r statstest.Rate) {
	for i := range skillWeeks / c.weeks {
		s := c.skill(i)
		for d := range c.weeks * WindowDays {
			n := c.perDay
			if c.sessions != nil {
				n = c.sessions(d)
			}
			alarms, _ := s.day(n, c.rate())
			r.Events += alarms
		}
		r.Exposure += float64(c.weeks)
	}
	return r
}

// delay is the median of the graded sessions until a fall by so many points is noticed.
func (c course) delay(fall float64, skills int) int {
	const patience = 90 // days
	delays := make([]int, skills)
	for i := range delays {
		s := c.skill(i)
		delays[i] = math.MaxInt
		for d := range patience {
			if _, first := s.day(c.perDay, max(0, c.rate()-fall)); first > 0 {
				delays[i] = d*c.perDay + first
				break
			}
		}
	}
	slices.Sort(delays)
	return delays[len(delays)/2]
}
