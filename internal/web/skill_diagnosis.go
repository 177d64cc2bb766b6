package web

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/web/format"
	"github.com/whetstone-dev/whetstone/internal/web/overview"
)

// A diagnosis says in one sentence how a skill does: Text, then the time At, then
// what happened since. It is words and no figures: the page shows these below it.
type diagnosis struct {
	Kind    diagnosisKind
	Text    string
	At      *time.Time // of the change; nil if there was none
	Then    string     // what became current after the change, or ""
	ThenAt  *time.Time
	Tail    string // how the figures are known
	Version string // that the change came with; "" if it came without one
	Good    string // the version before the change that a rollback can go to; "" if there is none
	Entry   string // id of the skill's entry; "" if it is not in the registry
}

// A diagnosisKind is what a diagnosis says.
type diagnosisKind string

// The kinds.
const (
	fell   diagnosisKind = "fell"
	rose   diagnosisKind = "rose"
	steady diagnosisKind = "steady"
	low    diagnosisKind = "low"    // the current version is worse than all versions together
	few    diagnosisKind = "few"    // graded sessions
	silent diagnosisKind = "silent" // no sessions of late
)

// Fallen reports whether the pass rate fell.
func (d diagnosis) Fallen() bool { return d.Kind == fell }

const (
	// diagnosedDays is how far back a diagnosis looks.
	diagnosedDays = 90
	// enough is how many graded sessions a pass rate is told from. Alerts want as many
	// of a version that others are compared with.
	enough = 20
	// enoughAfter is how many a change is told from.
	enoughAfter = 10
	// minChange is the smallest change of a pass rate that is told.
	minChange = 0.05
	// caution widens the intervals that are compared: a page is looked at again and
	// again, and each look is a chance to take noise for a change. TestNoise holds what
	// is left.
	caution = 1.5
	// split is the evidence, as a likelihood ratio statistic, that a change without a
	// version needs: it is the largest of all days, of which one is always large.
	split = 18
	// maxDispersion bounds how much days may differ from each other.
	maxDispersion = 5
	silentDays    = 14
	// tenuresRead is how many of the newest versions a diagnosis knows.
	tenuresRead = 12
	// news is how long a rise is told rather than the pass rate since.
	news = 30
)

// A skillHistory is what a diagnosis is made from: the last days of a skill and of its
// versions, oldest first.
type skillHistory struct {
	Days     []overview.Day
	Versions map[string][]overview.Day // by version id
	Tenures  []overview.Tenure         // oldest first
	Window   int                       // days of the skill's pass rate
}

// diagnoses returns those of skills of the organisation, by id. It takes two
// queries, however many skills there are. The list of skills needs one for each row.
func (s *Service) diagnoses(ctx context.Context, orgID string, skillIDs []string) (map[string]diagnosis, error) {
	histories, err := s.histories(ctx, orgID, skillIDs, historySpan{days: diagnosedDays, tenures: tenuresRead})
	all := make(map[string]diagnosis, len(skillIDs))
	for id, h := range histories {
		d := diagnose(h)
		if len(h.Tenures) > 0 {
			d.Entry = h.Tenures[0].EntryID
		}
		all[id] = d
	}
	return all, err
}

// A historySpan is how much of a skill's past is read.
type historySpan struct{ days, tenures int }

// histories reads the days of skills and of their versions with one query: both are
// subjects of the same rollup.
func (s *Service) histories(ctx context.Context, orgID string, skillIDs []string, w historySpan) (map[string]skillHistory,
	error,
) {
	tenures, err := s.Overview.Tenures(ctx, orgID, skillIDs, w.tenures)
	if err != nil {
		return nil, err
	}
	ids := slices.Clone(skillIDs)
	for _, of := range tenures {
		for _, t := range of {
			// A version that became current twice has two tenures.
			if !slices.Contains(ids, t.VersionID) {
				ids = append(ids, t.VersionID)
			}
		}
	}
	found, err := s.Overview.Days(ctx, ids, w.days)
	all := make(map[string]skillHistory, len(skillIDs))
	for _, id := range skillIDs {
		all[id] = skillHistory{Days: found[id], Versions: found, Tenures: tenures[id], Window: s.Skills.Window}
	}
	return all, err
}

// A sample is the graded sessions of some days. Sums make it possible to take days
// away again, see without.
type sample struct {
	n       int
	sum     float64 // of their pass rates
	days    int
	squares float64 // of the rates of the days, weighted by sessions
}

// sampleOf sums up the graded days; others have no rate.
func sampleOf(days []overview.Day) (s sample) {
	for _, d := range days {
		s.add(d)
	}
	return s
}

func (s *sample) add(d overview.Day) {
	if d.PassRate == nil {
		return
	}
	n := float64(d.Graded)
	s.n += int(d.Graded)
	s.sum += *d.PassRate * n
	s.squares += *d.PassRate * *d.PassRate * n
	s.days++
}

// without returns the days of the sample that are not in another.
func (s sample) without(o sample) sample {
	return sample{s.n - o.n, s.sum - o.sum, s.days - o.days, s.squares - o.squares}
}

// rate is the mean over sessions, not over days.
func (s sample) rate() float64 { return s.sum / float64(max(1, s.n)) }

// dispersion is how much the days differ, 1 if no more than chance makes them:
// Pearson's statistic over its degrees of freedom. Sessions of a day are alike, e.g.
// of one person with one task, so that a day says less than as many independent
// sessions.
func (s sample) dispersion() float64 {
	p := s.rate()
	if s.n < enough || s.days < 2 || p <= 0 || p >= 1 {
		return 1
	}
	pearson := (s.squares - float64(s.n)*p*p) / (p * (1 - p))
	return min(max(pearson/float64(s.days-1), 1), maxDispersion)
}

// interval is that of the pass rate, as wide as days that differ and looks that are
// repeated make it. Fewer sessions than there were stand for them, which widens the
// interval.
func (s sample) interval() (low, high float64) {
	return stats.Wilson(s.rate(), max(1, int(float64(s.n)/(s.dispersion()*caution))))
}

// changed reports whether the pass rate differs by more than chance: at all, and in
// which direction. The intervals must not overlap, which is stricter than a test at
// 5 %.
func changed(before, after sample) (diagnosisKind, bool) {
	if before.n < enough || after.n < enoughAfter || math.Abs(after.rate()-before.rate()) < minChange {
		return steady, false
	}
	low, high := before.interval()
	afterLow, afterHigh := after.interval()
	switch {
	case afterHigh < low:
		return fell, true
	case afterLow > high:
		return rose, true
	}
	return steady, false
}

// A period is the days of a version from when it became current until it did so
// again; what was reported of it after the next version became current counts, since
// installations update later. The day on which it became current again counts for the
// time before: days cannot be divided.
type period struct {
	overview.Tenure
	days []overview.Day
}

// periods divides the days by versions. Without versions all days are one period,
// whose changes are drifts.
func (h skillHistory) periods() []period {
	if len(h.Tenures) == 0 {
		return []period{{days: h.Days}}
	}
	var all []period
	// Two tenures of one version in a row are one.
	tenures := slices.CompactFunc(slices.Clone(h.Tenures), func(a, b overview.Tenure) bool { return a.VersionID == b.VersionID })
	for i, t := range tenures {
		same := func(o overview.Tenure) bool { return o.VersionID == t.VersionID }
		again := slices.ContainsFunc(tenures[:i], same)
		from, until := t.Since.UTC().Format(time.DateOnly), "~" // which is after all dates
		if next := slices.IndexFunc(tenures[i+1:], same); next >= 0 {
			until = tenures[i+1+next].Since.UTC().Format(time.DateOnly)
		}
		p := period{Tenure: t}
		for _, d := range h.Versions[t.VersionID] {
			if (d.Date > from || d.Date == from && !again) && d.Date <= until {
				p.days = append(p.days, d)
			}
		}
		all = append(all, p)
	}
	return all
}

// diagnose looks for the newest change of the pass rate that is more than noise, with
// a version or without. The order is that of urgency: what a person must act on
// hides the rest.
func diagnose(h skillHistory) diagnosis {
	if days := h.silence(); days >= silentDays {
		return h.silent(days)
	}
	if d, ok := h.change(); ok {
		return d
	}
	recent := sampleOf(h.Days[max(0, len(h.Days)-h.Window):])
	if d, ok := h.low(recent); ok {
		return d
	}
	if recent.n < enough {
		return h.few(recent)
	}
	low, high := stats.Wilson(recent.rate(), recent.n)
	return diagnosis{
		Kind: steady, Text: "Steady at " + format.Percent(recent.rate()),
		Tail: fmt.Sprintf("%s (%s) in %d days", sessionsText(recent.n), format.Interval(&[2]float64{low, high}), h.Window),
	}
}

// low is the diagnosis of a current version that the pass rate of all versions
// hides. Most sessions of the window may be of older versions, which are no longer
// of interest.
func (h skillHistory) low(recent sample) (d diagnosis, ok bool) {
	if len(h.Tenures) == 0 {
		return d, false
	}
	now := h.Tenures[len(h.Tenures)-1]
	days := h.Versions[now.VersionID]
	own := sampleOf(days[max(0, len(days)-h.Window):])
	if own.n == 0 {
		return d, false
	}
	rate, all := own.rate(), recent.rate()
	c := overview.Current{Version: now.Version, PassRate: &rate, Graded: int64(own.n)}
	if !c.Hidden(skills.StatusOf(&all, int64(recent.n)), &all) {
		return d, false
	}
	return diagnosis{
		Kind: low, Text: fmt.Sprintf("%s is at %s, all versions together at %s", now.Version, format.Percent(rate),
			format.Percent(all)),
		Version: now.Version, Tail: fmt.Sprintf("%s of it, %d of all in %d days", sessionsText(own.n), recent.n, h.Window),
	}, true
}

// sessionsText formats a number with its noun, e.g. "1,204 graded sessions".
func sessionsText(n int) string {
	text, _ := format.Plural(n, "graded session", "graded sessions") // it is a number
	return text
}

// few says how many are missing, so that a person can wait for them.
func (h skillHistory) few(recent sample) diagnosis {
	return diagnosis{Kind: few, Text: fmt.Sprintf("Not enough graded sessions: %d of %d in %d days", recent.n, enough, h.Window)}
}

// silence is how many days there was no session.
func (h skillHistory) silence() int {
	for i := len(h.Days) - 1; i >= 0; i-- {
		if h.Days[i].Sessions > 0 {
			return len(h.Days) - 1 - i
		}
	}
	return len(h.Days)
}

// silent adds the last known rate, which is all that there is.
func (h skillHistory) silent(days int) diagnosis {
	if days == len(h.Days) {
		return diagnosis{Kind: silent, Text: fmt.Sprintf("No session in %d days", days)}
	}
	d := diagnosis{Kind: silent, Text: fmt.Sprintf("No session for %d days", days)}
	if before := sampleOf(h.Days); before.n >= enough {
		d.Tail = format.Percent(before.rate()) + " before, of " + sessionsText(before.n)
	}
	return d
}

// change goes back in time as long as the periods are alike, and finds what ended
// that, or else a change among them.
func (h skillHistory) change() (d diagnosis, found bool) {
	all := h.periods()
	last := len(all) - 1
	// The newest version may be too young to be judged; then the one before it is.
	for last >= 0 && sampleOf(all[last].days).n < enoughAfter {
		last--
	}
	if last < 0 {
		return d, false
	}
	first, days := last, all[last].days // those that are alike
	for i := last - 1; i >= 0; i-- {
		before := sampleOf(all[i].days)
		if before.n < enough {
			continue
		}
		kind, differs := changed(before, sampleOf(days))
		if differs {
			d, found = h.with(kind, before, sampleOf(days), all[first].Tenure), true
			// Only a version that may become current again is worth a link to roll
			// back.
			if all[i].Eligible {
				d.Good = all[i].Version
			}
			break
		}
		first, days = i, addDays(days, all[i].days)
	}
	// A drift is newer than the change that ended the comparison: it lies in days
	// after it.
	if without, ok := driftOf(days); ok {
		d, found = h.with(without.kind, without.before, without.after, overview.Tenure{Since: without.at}), true
		if version := currentOn(all, without.at); version != "" {
			d.Text += " while " + version + " was current"
		}
	}
	if !found || d.Kind == rose && time.Since(*d.At) > news*24*time.Hour {
		return d, false
	}
	// The cause was replaced already, so there is nothing to roll back.
	if now := all[len(all)-1]; last < len(all)-1 {
		d.Then, d.ThenAt = now.Version+" is current", &now.Since
		d.Tail += "; " + sessionsText(sampleOf(now.days).n) + " since"
		d.Good = ""
	}
	return d, true
}

// with puts a change into words, e.g. "Fell from 94 % to 71 % with 1.3.0".
func (h skillHistory) with(kind diagnosisKind, before, after sample, t overview.Tenure) diagnosis {
	verb := "Fell"
	if kind == rose {
		verb = "Rose"
	}
	text := fmt.Sprintf("%s from %s to %s", verb, format.Percent(before.rate()), format.Percent(after.rate()))
	if t.Version != "" {
		text += " with " + t.Version
	}
	return diagnosis{
		Kind: kind, Text: text, At: &t.Since, Version: t.Version,
		Tail: sessionsText(before.n) + " before, " + fmt.Sprint(after.n) + " after",
	}
}

// currentOn returns the version that was current at a time, or "".
func currentOn(all []period, at time.Time) (version string) {
	for _, p := range all {
		if !p.Since.After(at) {
			version = p.Version
		}
	}
	return version
}

// addDays sums days up by date. Two periods may share a day, whose sessions are
// added.
func addDays(a, b []overview.Day) []overview.Day {
	by := map[string]int{}
	sum := slices.Clone(a)
	for i, d := range sum {
		by[d.Date] = i
	}
	for _, d := range b {
		i, known := by[d.Date]
		if !known {
			sum = append(sum, d)
			continue
		}
		if d.PassRate == nil {
			continue
		}
		total := *d.PassRate * float64(d.Graded)
		if sum[i].PassRate != nil {
			total += *sum[i].PassRate * float64(sum[i].Graded)
		}
		sum[i].Graded += d.Graded
		rate := total / float64(sum[i].Graded)
		sum[i].PassRate = &rate
	}
	slices.SortFunc(sum, func(x, y overview.Day) int {
		if x.Date < y.Date {
			return -1
		}
		return 1
	})
	return sum
}

// A shift is a change between two days.
type shift struct {
	kind          diagnosisKind
	before, after sample
	at            time.Time
}

// driftOf finds the day on which a change that no version explains is the likeliest.
// It compares two binomial models with one, and divides by the dispersion
// (quasi-likelihood).
func driftOf(days []overview.Day) (best shift, found bool) {
	most, all := 0.0, sampleOf(days)
	var before sample
	for _, d := range days {
		after := all.without(before)
		if before.n >= enough && after.n >= enoughAfter {
			phi := (before.dispersion()*float64(before.n) + after.dispersion()*float64(after.n)) / float64(all.n)
			evidence := 2 * (before.logLikelihood() + after.logLikelihood() - all.logLikelihood()) / phi
			if evidence > most {
				kind, differs := changed(before, after)
				at, err := time.Parse(time.DateOnly, d.Date)
				most, best, found = evidence, shift{kind, before, after, at}, differs && err == nil && evidence >= split
			}
		}
		before.add(d)
	}
	return best, found
}

// logLikelihood is that of the sample at its own pass rate. The limits 0 and 1 are
// left out: x log x tends to 0 there.
func (s sample) logLikelihood() float64 {
	p, sum := s.rate(), 0.0
	if p > 0 {
		sum += s.sum * math.Log(p)
	}
	if p < 1 {
		sum += (float64(s.n) - s.sum) * math.Log(1-p)
	}
	return sum
}
