package alerts

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
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
	Reached  bool   // the limit was reached, and the evidence is still above half of it
	of       string // the figures that it was computed from
}

// verdict has a hysteresis: between the limit and half of it an alert that fires
// goes on firing. So it does not matter how many sessions are graded between two
// evaluations.
func (e Evidence) verdict() verdict {
	switch {
	case e.Sum == nil || e.Sessions < minGraded:
		return insufficient
	case e.Reached:
		return breached
	case *e.Sum <= evidenceOfResolve**e.Limit:
		return healthy
	}
	return undecided
}

// gatherEvidence goes through the graded sessions of a skill since its version
// became current, at most evidenceDays back. The dispersion is, on each day, that of
// the days before. Of a skill with more gradings than are read, what was before the
// first sessions is not known: week and month, the graded sessions of the last
// WindowDays and evidenceDays, tell that and stand in for it.
func gatherEvidence(all []skills.GradedSession, threshold float64, v registry.Lineage, week, month int64,
	now time.Time,
) Evidence {
	days := newGradedDays(all, now)
	cut := int64(days.sessions(len(days.all)-evidenceDays, len(days.all))) < month
	since := now.Add(-evidenceDays * day)
	if v.Since.After(since) {
		since = v.Since
	}
	var w walk
	var c cusum
	var p pace
	on, today := -1, 0
	for _, s := range all {
		if i := days.index(s.At); i != on {
			on, today = i, 0
			p = paceOf(days.all[:on])
			before := days.all[max(0, on-dispersionDays):on]
			if cut {
				before = days.all
			}
			c = newCusum(threshold, dispersion(before))
		}
		today++
		if s.At.Before(since) || v.CurrentID != "" && s.VersionID != v.CurrentID {
			continue
		}
		n := p.weekly(today)
		if cut {
			n = max(n, int(week))
		}
		w.add(c, s.PassRate, n)
	}
	return w.evidence()
}

// gradedDays are the graded sessions of a skill by day (UTC), today last.
type gradedDays struct {
	first time.Time
	all   []gradedDay
}

func newGradedDays(sessions []skills.GradedSession, now time.Time) gradedDays {
	const length = evidenceDays + dispersionDays + 1
	d := gradedDays{now.UTC().Truncate(day).AddDate(0, 0, 1-length), make([]gradedDay, length)}
	for _, s := range sessions {
		d.all[d.index(s.At)].add(s.PassRate)
	}
	return d
}

// index is the position of a day. A clock may run ahead, and what is older than the
// first day is of no account.
func (d gradedDays) index(at time.Time) int {
	return min(max(int(at.Sub(d.first)/day), 0), len(d.all)-1)
}

// sessions counts those of the days from one on until another.
func (d gradedDays) sessions(from, until int) (count int) {
	for _, of := range d.all[max(0, from):until] {
		count += of.sessions
	}
	return count
}
