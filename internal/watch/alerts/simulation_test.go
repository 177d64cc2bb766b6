package alerts

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/base/stats/statstest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A simulated skill has graded sessions, each of which passes or fails as a whole, and a
// sequential rule that is evaluated after each of them.
type simulated struct {
	random    *rand.Rand
	threshold float64
	spread    float64 // standard deviation of a day's rate
	days      []gradedDay
	walk      walk

	results []float64 // of the last day, if they are kept
	keep    bool
}

// day simulates the graded sessions of a day. It returns how often the rule fired, and
// after how many sessions first, 0 if it did not.
func (s *simulated) day(sessions int, rate float64) (alarms, first int) {
	c := newCusum(s.threshold, dispersion(s.days[max(0, len(s.days)-dispersionDays):]))
	before := paceOf(s.days)
	if s.spread > 0 {
		rate = min(max(rate+s.spread*s.random.NormFloat64(), 0), 1)
	}
	var today gradedDay
	s.results = s.results[:0]
	for i := range sessions {
		x := 0.0
		if s.random.Float64() < rate {
			x = 1
		}
		if s.keep {
			s.results = append(s.results, x)
		}
		today.add(x)
		reached := s.walk.reached
		s.walk.add(c, x, before.weekly(today.sessions))
		if s.walk.reached && !reached {
			if alarms++; first == 0 {
				first = i + 1
			}
		}
	}
	if len(s.days) == 2*dispersionDays { // no more is looked at
		s.days = slices.Delete(s.days, 0, 1)
	}
	s.days = append(s.days, today)
	return alarms, first
}

// A course is what a simulated skill goes through.
type course struct {
	threshold float64
	above     float64 // how many points the skill is above the threshold; 0: sound
	perDay    int
	spread    float64
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
	seed := uint64(c.threshold*1000)<<40 + uint64(c.perDay)<<20 + uint64(c.spread*1e4)
	s := &simulated{random: rand.New(rand.NewPCG(seed, uint64(i))), threshold: c.threshold, spread: c.spread} // a simulation
	s.days = make([]gradedDay, 0, 2*dispersionDays)
	for range dispersionDays {
		if !c.fresh {
			s.day(c.perDay, c.rate())
		}
	}
	s.walk = walk{}
	return s
}

// falseAlarms simulates so many skill-weeks.
func (c course) falseAlarms(skillWeeks int) statstest.Rate {
	var alarms atomic.Int64
	inParallel(skillWeeks/c.weeks, func(i int) {
		s := c.skill(i)
		for d := range c.weeks * WindowDays {
			n := c.perDay
			if c.sessions != nil {
				n = c.sessions(d)
			}
			a, _ := s.day(n, c.rate())
			alarms.Add(int64(a))
		}
	})
	return statstest.Rate{Events: int(alarms.Load()), Exposure: float64(skillWeeks / c.weeks * c.weeks)}
}

// delay is the median of the graded sessions until a fall by so many points is noticed.
func (c course) delay(fall float64, skills int) int {
	const patience = 90 // days
	delays := make([]int, skills)
	inParallel(skills, func(i int) {
		s := c.skill(i)
		delays[i] = math.MaxInt
		for d := range patience {
			if _, first := s.day(c.perDay, max(0, c.rate()-fall)); first > 0 {
				delays[i] = d*c.perDay + first
				return
			}
		}
	})
	slices.Sort(delays)
	return delays[len(delays)/2]
}

// A successor is a new version with a rule that takes it back if it is worse than the one
// before, which passes at a rate that is known from some graded sessions.
type successor struct {
	rate, fall float64
	before     int // graded sessions of the version before
	perDay     int
}

// takenBack simulates versions for four weeks. It returns how many were taken back, and
// after how many graded sessions in the median of those.
func (v successor) takenBack(versions int) (share statstest.Rate, median int) {
	rule := Rule{Type: WorseThanPrevious, Threshold: defaultWorse, Sensitivity: Sequential}
	delays := make([]int, versions)
	inParallel(versions, func(i int) {
		seed := uint64(v.rate*1000)<<40 + uint64(v.before)<<20 + uint64(v.perDay)
		s := simulated{random: rand.New(rand.NewPCG(seed, uint64(i)))} // a simulation
		passed := 0.0
		for left := v.before; left > 0; left -= v.perDay {
			n := min(left, v.perDay)
			s.day(n, v.rate)
			passed += s.days[len(s.days)-1].sum
		}
		rate := passed / float64(v.before)
		s.threshold, _ = rule.passRateLimit(figures{before: skills.Quality{PassRate: &rate, GradedSessions: int64(v.before)}})
		s.walk = walk{}
		for d := range evidenceDays {
			if _, first := s.day(v.perDay, v.rate-v.fall); first > 0 {
				delays[i] = d*v.perDay + first
				return
			}
		}
	})
	delays = slices.DeleteFunc(delays, func(n int) bool { return n == 0 })
	slices.Sort(delays)
	if len(delays) > 0 {
		median = delays[len(delays)/2]
	}
	return statstest.Rate{Events: len(delays), Exposure: float64(versions)}, median
}

// A usage is what alerts on costs and offers see of a sound skill: uses with a cost,
// whose logarithm has a normal distribution, and offers, of which a share is used.
type usage struct {
	rule   Rule
	perDay int
	spread float64 // of the logarithm of the cost of a use; the median is 1
	share  float64 // of the offers that are used
}

// falseAlarms simulates so many skill-weeks, and evaluates the rule after each session
// (more often than that in fact: twice).
func (u usage) falseAlarms(skillWeeks int) statstest.Rate {
	const weeks = 10
	var alarms atomic.Int64
	inParallel(skillWeeks/weeks, func(i int) {
		random := rand.New(rand.NewPCG(uint64(u.perDay)<<20+uint64(100*u.share+100*u.spread), uint64(i))) // a simulation
		const now, all = WindowDays, evidenceDays
		costs, used := make([]float64, 0, all*u.perDay), make([]float64, 0, all*u.perDay)
		sorted := make([]float64, 0, now*u.perDay)
		var state State
		for d := range all + weeks*WindowDays {
			recent, before := len(used)-(now-1)*u.perDay, len(used)-(all-1)*u.perDay
			for range u.perDay {
				costs = append(costs, math.Exp(u.spread*random.NormFloat64()))
				used = append(used, 0)
				if random.Float64() < u.share {
					used[len(used)-1] = 1
				}
				if d < all {
					continue
				}
				var f figures
				if u.rule.Type == CostAbove {
					sorted = append(sorted[:0], costs[recent:]...)
					slices.Sort(sorted)
					f.cost = &pricing.Cost{Uses: int64(len(sorted)), PerUseP50: &sorted[(len(sorted)-1)/2]}
					if rank := stats.MedianRank(len(sorted)); rank > 0 {
						f.cost.PerUseLow = &sorted[rank-1]
					}
				} else {
					f.offers = skills.Offers{
						Offered: int64(len(used) - recent), Used: int64(sum(used[recent:])),
						OfferedBefore: int64(recent - before), UsedBefore: int64(sum(used[before:recent])),
					}
				}
				v := u.rule.evaluate(f, noon)
				for range resolveAfter {
					var t Transition
					if state, t, _ = state.next(v, noon, false); t == Firing {
						alarms.Add(1)
					}
				}
			}
		}
	})
	return statstest.Rate{Events: int(alarms.Load()), Exposure: float64(skillWeeks / weeks * weeks)}
}

func sum(all []float64) (s float64) {
	for _, x := range all {
		s += x
	}
	return s
}

// inParallel calls f for 0 to n-1.
func inParallel(n int, f func(i int)) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	running.Wait()
}
