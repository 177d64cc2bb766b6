package alerts

import "math"

// A cusum is the evidence that a skill's pass rate has fallen below a threshold,
// gathered session by session since its version became current: the log of how
// much likelier a bad rate makes the sessions than a good one, never below 0. It
// forgets a good past at once and needs no window.
type cusum struct {
	pass, fail float64 // what a session with that result adds
	limit      float64 // the evidence that fires, and the highest that is kept
	phi        float64 // dispersion: how much of a session is evidence of its own
}

const (
	// shift is how far, in log odds, the good and the bad failure rate lie from
	// that of the threshold.
	shift = 0.9
	// bar makes it one false alarm in 1,000 weeks of a skill that is 10 points
	// above its threshold; simulated.
	bar = -1.5
	// dispersionDays is what the dispersion is estimated from.
	dispersionDays = 28
	// minDispersed is how many graded sessions an estimate of it needs.
	minDispersed             = 30
	minDispersion            = 0.3
	maxDispersion            = 5
	evidenceOfResolve        = 0.5 // share of the limit at which it is resolved
	falseAlarmsPerSkillWeeks = 1000
)

// newCusum is that of a threshold, for a skill with so many graded sessions in
// the last 7 days.
func newCusum(threshold, dispersion float64, week int) cusum {
	// At 0 and 1 the odds of a failure are infinite: nothing could be told.
	failure := min(max(1-threshold, 0.001), 0.999)
	odds := math.Log(failure / (1 - failure))
	good, bad := logistic(odds-shift), logistic(odds+shift)
	return cusum{
		pass:  math.Log((1-bad)/(1-good)) / dispersion,
		fail:  math.Log(bad/good) / dispersion,
		limit: max(1, math.Log(falseAlarmsPerSkillWeeks*float64(max(minGraded, week))/dispersion)+bar),
		phi:   dispersion,
	}
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// add returns the evidence after one more graded session.
func (c cusum) add(evidence, passRate float64) float64 {
	return min(max(evidence+passRate*c.pass+(1-passRate)*c.fail, 0), c.limit)
}

// A gradedDay has the graded sessions of a skill on one day.
type gradedDay struct {
	sessions     int
	sum, squares float64 // of their pass rates and of the squares of them
}

// dispersion estimates how much the sessions of a skill vary, relative to
// independent ones that pass or fail as a whole. Several expectations a session
// make it smaller than 1, days that differ from each other make it larger.
func dispersion(days []gradedDay) float64 {
	var all gradedDay
	within, squaredSizes := 0.0, 0.0
	groups := 0
	for _, d := range days {
		if d.sessions == 0 {
			continue
		}
		groups++
		n := float64(d.sessions)
		all.sessions += d.sessions
		all.sum += d.sum
		all.squares += d.squares
		within += d.squares - d.sum*d.sum/n
		squaredSizes += n * n
	}
	n := float64(all.sessions)
	p := all.sum / n
	if all.sessions < minDispersed || p <= 0 || p >= 1 {
		return 1
	}
	total := all.squares - all.sum*all.sum/n
	phi := total / n / (p * (1 - p))
	// The correlation of the sessions of a day, by analysis of variance.
	if groups > 1 && all.sessions > groups {
		between := (total - within) / float64(groups-1)
		within /= float64(all.sessions - groups)
		size := (n - squaredSizes/n) / float64(groups-1)
		if between > within {
			rho := (between - within) / (between + (size-1)*within)
			phi *= 1 + (n/float64(groups)-1)*rho
		}
	}
	return min(max(phi, minDispersion), maxDispersion)
}
