package alerts

import "math"

// A cusum is the evidence that a skill's pass rate has fallen below a threshold,
// gathered session by session since its version became current: the log of how
// much likelier a bad rate makes the sessions than a sound one, never below 0. It
// forgets a good past at once and needs no window.
type cusum struct {
	pass, fail float64 // what a session with that result adds
	phi        float64 // dispersion: how much of a session is evidence of its own
	slack      float64 // see calibration
}

const (
	// soundMargin is how far above the threshold the pass rate of a sound skill is, and
	// maxShift how far at most in log odds.
	soundMargin = 0.1
	maxShift    = 0.9
	// dispersionDays is what the dispersion is estimated from.
	dispersionDays = 28
	// minDispersed is how many graded sessions an estimate of it needs.
	minDispersed             = 30
	minDispersion            = 0.3
	maxDispersion            = 20
	dispersionMargin         = 0.5 // standard errors that days are taken to differ more than they did
	evidenceOfResolve        = 0.5 // share of the limit at which it is resolved
	falseAlarmsPerSkillWeeks = 1000
)

// calibration has, for thresholds, what the limit is lower than the logarithm of the
// sessions in 1,000 weeks, so that a sound skill reaches it less than once in 1,000
// weeks: the logarithm of the mean number of sessions until a sound skill reaches 7, less
// 7.2 (above 0.85, a little more). The 0.2 are for what that leaves out: a dispersion that
// is estimated, and that an alarm ends at half of the limit, not at 0.
var calibration = []struct{ threshold, slack float64 }{
	{0.3, 2.67},
	{0.4, 2.59},
	{0.5, 2.76},
	{0.6, 2.63},
	{0.7, 2.45},
	{0.75, 2.30},
	{0.8, 2.16},
	{0.85, 2.24},
	{0.9, 2.10},
	{0.95, 2.80},
}

// slackOf interpolates calibration.
func slackOf(threshold float64) float64 {
	below := calibration[0]
	for _, above := range calibration {
		if threshold <= above.threshold {
			if above == below {
				return above.slack
			}
			share := (threshold - below.threshold) / (above.threshold - below.threshold)
			return below.slack + share*(above.slack-below.slack)
		}
		below = above
	}
	return below.slack
}

// newCusum is that of a threshold, for a skill with that dispersion.
func newCusum(threshold, dispersion float64) cusum {
	// At 0 and 1 the odds of a failure are infinite: nothing could be told.
	failure := min(max(1-threshold, 0.001), 0.999)
	shift := maxShift
	if failure > soundMargin {
		shift = min(shift, logit(failure)-logit(failure-soundMargin))
	}
	sound, bad := logistic(logit(failure)-shift), logistic(logit(failure)+shift)
	return cusum{
		pass:  math.Log((1-bad)/(1-sound)) / dispersion,
		fail:  math.Log(bad/sound) / dispersion,
		phi:   dispersion,
		slack: slackOf(threshold),
	}
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func logit(p float64) float64 { return math.Log(p / (1 - p)) }

// limit is the evidence that fires, for a skill with so many graded sessions a week.
func (c cusum) limit(week int) float64 {
	return math.Log(falseAlarmsPerSkillWeeks*float64(max(minGraded, week))/c.phi) - c.slack
}

// A walk gathers the evidence of sessions one after the other.
type walk struct {
	sum, limit float64
	sessions   int
	reached    bool // the limit was, and the sum is not down at evidenceOfResolve of it since
}

// add adds one more graded session, of a skill with so many a week. The sum is never
// above the limit, so that a skill that recovers is soon resolved.
func (w *walk) add(c cusum, passRate float64, week int) {
	w.limit = c.limit(week)
	w.sum = min(max(w.sum+passRate*c.pass+(1-passRate)*c.fail, 0), w.limit)
	w.sessions++
	switch {
	case w.sum >= w.limit && w.sessions >= minGraded:
		w.reached = true
	case w.sum <= evidenceOfResolve*w.limit:
		w.reached = false
	}
}

func (w walk) evidence() Evidence {
	e := Evidence{Sessions: w.sessions, Reached: w.reached}
	if w.sessions > 0 {
		e.Sum, e.Limit = &w.sum, &w.limit
	}
	return e
}

// A pace is how many graded sessions a skill has a week, up to a day.
type pace struct {
	week    int // of the 6 days before
	busiest int // of one of the evidenceDays before
}

func paceOf(before []gradedDay) (p pace) {
	before = before[max(0, len(before)-evidenceDays+1):]
	for i, d := range before {
		if i > len(before)-WindowDays {
			p.week += d.sessions
		}
		p.busiest = max(p.busiest, d.sessions)
	}
	return p
}

// weekly is the pace with the sessions of today so far. In first days, when sessions
// become many more from one day to the next, and after quiet weeks, it goes by the
// busiest day, less the standard error of its count: with the limit of the few sessions
// there were so far, each of the first ones would be too likely to reach it.
func (p pace) weekly(today int) int {
	busiest := float64(max(p.busiest, today))
	return max(p.week+today, int(WindowDays*(busiest-math.Sqrt(busiest))))
}

// A gradedDay has the graded sessions of a skill on one day.
type gradedDay struct {
	sessions     int
	sum, squares float64 // of their pass rates and of the squares of them
}

// add counts a session.
func (d *gradedDay) add(passRate float64) {
	d.sessions++
	d.sum += passRate
	d.squares += passRate * passRate
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
		// A dispersion that looks smaller than it is raises alarms.
		between *= 1 + dispersionMargin*math.Sqrt(2/float64(groups-1))
		if between > within {
			rho := (between - within) / (between + (size-1)*within)
			phi *= 1 + (n/float64(groups)-1)*rho
		}
	}
	return min(max(phi, minDispersion), maxDispersion)
}
