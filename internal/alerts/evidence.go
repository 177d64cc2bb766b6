package alerts

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/registry/lineage"
	"github.com/whetstone-dev/whetstone/internal/skills/graded"
)

const (
	// evidenceDays is how far back evidence is gathered. It is computed anew from all
	// of them whenever a figure changes, so that late gradings count in their place.
	evidenceDays = 28
	// maxGradings bounds what is read of one skill: with more sessions a day the
	// evidence of a shorter time is enough.
	maxGradings = 10_000
	day         = 24 * time.Hour
)

// Evidence is what the graded sessions of a skill say against its pass rate.
type Evidence struct {
	Sum      *float64 // nil without a session
	Limit    *float64 // at which the alert fires
	Sessions int
	of       string // the figures that it was computed from
}

// verdict has a hysteresis: between the limit and half of it an alert that fires
// goes on firing.
func (e Evidence) verdict() verdict {
	switch {
	case e.Sum == nil || e.Sessions < minGraded:
		return insufficient
	case *e.Sum >= *e.Limit:
		return breached
	case *e.Sum <= evidenceOfResolve**e.Limit:
		return healthy
	}
	return undecided
}

// gatherEvidence goes through the graded sessions of a skill since its version
// became current, at most evidenceDays back. The dispersion and the number of
// sessions in a week are, on each day, those of the days before.
func gatherEvidence(all []graded.Session, threshold float64, v lineage.Lineage, now time.Time) (e Evidence) {
	days := newGradedDays(all, now)
	since := now.Add(-evidenceDays * day)
	if v.Since.After(since) {
		since = v.Since
	}
	sum, on := 0.0, -1
	var c cusum
	for _, s := range all {
		if s.At.Before(since) || v.CurrentID != "" && s.VersionID != v.CurrentID {
			continue
		}
		if i := days.index(s.At); i != on {
			c, on = days.cusum(threshold, i), i
		}
		sum = c.add(sum, s.PassRate)
		e.Sessions++
	}
	if e.Sessions > 0 {
		limit := days.cusum(threshold, len(days.all)-1).limit
		e.Sum, e.Limit = &sum, &limit
	}
	return e
}

// gradedDays are the graded sessions of a skill by day (UTC), today last.
type gradedDays struct {
	first time.Time
	all   []gradedDay
}

func newGradedDays(sessions []graded.Session, now time.Time) gradedDays {
	const length = evidenceDays + dispersionDays + 1
	d := gradedDays{now.UTC().Truncate(day).AddDate(0, 0, 1-length), make([]gradedDay, length)}
	for _, s := range sessions {
		of := &d.all[d.index(s.At)]
		of.sessions++
		of.sum += s.PassRate
		of.squares += s.PassRate * s.PassRate
	}
	return d
}

// index is the position of a day. A clock may run ahead, and what is older than the
// first day is of no account.
func (d gradedDays) index(at time.Time) int {
	return min(max(int(at.Sub(d.first)/day), 0), len(d.all)-1)
}

// cusum is that of a day.
func (d gradedDays) cusum(threshold float64, on int) cusum {
	week := 0
	for _, before := range d.all[max(0, on-WindowDays):on] {
		week += before.sessions
	}
	return newCusum(threshold, dispersion(d.all[max(0, on-dispersionDays):on]), week)
}
