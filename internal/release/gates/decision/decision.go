// Package decision decides whether a version of a skill is worse than another,
// from the trials of both on the same cases: the statistical tests of a gate (significance),
// with a known rate of false blocks.
//
// It screens and confirms. The screen is a sign test over all cases; it finds
// what broke in many places. The cases that look worse in it are then tried
// again on both versions, and Fisher's test of those fresh trials alone finds
// what broke in one place. Each of the two steps blocks a harmless version in at
// most 2.5 % of all decisions; docs/gates.md has what they find.
//
// Whoever asks again does not roll the dice again: the trials of all attempts are
// pooled, and a block is lifted only when the pool no longer suggests harm (LiftAt).
package decision

import (
	"fmt"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
)

const (
	// FalseBlockRate is the highest share of harmless versions that are blocked.
	FalseBlockRate = 0.05
	// LiftAt is the p-value of the pooled trials above which an earlier block of the same
	// question is lifted. At FalseBlockRate instead, a version that lost 20 points on 20
	// cases would pass in 49 of 100 cases within ten reruns, with this one in 45, which is
	// how often it passes at once; of harmless versions that were blocked, 9 in 10 pass then.
	LiftAt = 0.3
	// FreshTrials is how often a case that looks worse is tried again on each
	// version. With 15, four of five single broken cases are found.
	FreshTrials = 15
	// stopAt is the e-value at which the screen need not wait for the other
	// cases: the chance that a harmless version ever reaches it is 2.5 %.
	stopAt = 2 / FalseBlockRate
)

// A Count is how many of the decided trials of a case passed.
type Count = stats.Count

// A Case is what the trials of a case of a suite showed. Counts hold the trials of all attempts
// of the pool.
type Case struct {
	ID string
	// Fixed says that the outcome cannot vary, because the case checks a given
	// output: one regression is then a regression.
	Fixed        bool
	Current, New Count
	// Fresh trials never count together with those of the screen: a case was chosen for its bad
	// luck there, and they would repeat it.
	FreshCurrent Count // of the second step, empty before it
	FreshNew     Count
	// Retried says that this attempt made the second step, not only an earlier one.
	Retried bool
	// WithoutASkill is empty where that arm did not run, and Beside has the trials of the
	// new version in the same runs.
	WithoutASkill, Beside Count
}

// decided reports whether both versions have a verdict.
func (c Case) decided() bool { return c.Current.Decided > 0 && c.New.Decided > 0 }

// A Suite has the cases of one suite.
type Suite struct {
	ID    string
	Cases []Case
}

// A Verdict is what a gate says about a version.
type Verdict string

// The verdicts. Inconclusive is not a pass: too few cases were decided.
const (
	Pass         Verdict = "pass"
	Block        Verdict = "block"
	Inconclusive Verdict = "inconclusive"
	Skipped      Verdict = "skipped" // there is nothing to compare
)

// A Confirmation is Fisher's test of the fresh trials of a case that looked worse.
type Confirmation struct {
	Case    string
	FisherP float64
}

// Findings are what the trials of a suite say.
type Findings struct {
	Suite         string
	Better, Worse []string // ids of cases
	Unchanged     int
	// They count neither as better nor as worse.
	Undecided int // without a verdict of one of the versions
	// NewErrs and CurrentErrs are the cases that only the other version decided.
	NewErrs, CurrentErrs int
	// Broken are the cases with a fixed outcome that passed before and fail now.
	Broken []string
	// SignTestP is nil where no case could vary.
	SignTestP *float64
	// Confirmed are the cases of the second step.
	Confirmed []Confirmation
	// Interval is that of the difference of the shares of passing cases.
	Interval *[2]float64
	// P is the suite's p-value over both steps, and AdjustedP that in the family of all
	// suites and all comparisons with no skill (Holm). P is 1 where nothing could vary or
	// nothing got worse.
	P, AdjustedP float64
	// WorseThanNoSkill is the p-value of the hypothesis that the new version does
	// no harm compared to no skill at all, and AdjustedNoSkill that in the family; nil
	// where that arm did not run.
	WorseThanNoSkill, AdjustedNoSkill *float64
}

// A Decision is a verdict with every number that led to it.
type Decision struct {
	Verdict Verdict
	Reason  string
	Suites  []Findings
	// Again are the cases to try again on both versions, FreshTrials times each,
	// by suite, before the verdict stands; nil where it stands.
	Again map[string][]string
}

// Policy is what an organisation asks for beyond the statistics, and what came before.
type Policy struct {
	MinCases int // decided ones, of all suites together
	// Blocked says that the same question was answered with a block before, whose trials
	// are among these.
	Blocked bool
}

// limit is the adjusted p-value up to which a version is blocked. Up to it inclusive.
func (p Policy) limit() float64 {
	if p.Blocked {
		return LiftAt
	}
	return FalseBlockRate
}

// Decide says what the trials so far mean. Where Again has cases, the verdict is
// that of the screen, and Decide wants to be asked again with their fresh trials. It has no
// state and uses no clock or randomness: the same trials always get the same verdict.
func Decide(suites []Suite, policy Policy) Decision {
	d := Decision{Suites: make([]Findings, len(suites))}
	// One family: however many suites there are, and whether no skill at all is compared,
	// a harmless version is blocked in at most FalseBlockRate of all decisions.
	var family []float64
	for i, s := range suites {
		d.Suites[i] = examine(s)
		family = append(family, d.Suites[i].P)
	}
	for _, f := range d.Suites {
		if f.WorseThanNoSkill != nil {
			family = append(family, *f.WorseThanNoSkill)
		}
	}
	adjusted := stats.Holm(family)
	next := len(suites)
	for i := range d.Suites {
		f := &d.Suites[i]
		f.AdjustedP = adjusted[i]
		if f.WorseThanNoSkill != nil {
			f.AdjustedNoSkill = &adjusted[next]
			next++
		}
	}
	d.Verdict, d.Reason = d.judge(policy)
	switch {
	// A pass is only preliminary while a case looks worse and was not tried afresh.
	case d.Verdict == Pass:
		d.Again = toRetry(suites, d.Suites, func(c Case) bool { return c.FreshNew.Decided == 0 || c.FreshCurrent.Decided == 0 })
	case d.Verdict == Block && policy.Blocked && d.confirmedOnly(policy):
		// What an earlier attempt confirmed is tried again, too: a false block must be
		// able to end.
		d.Again = toRetry(suites, d.Suites, func(c Case) bool { return !c.Retried })
	}
	return d
}

// confirmedOnly reports whether the second step alone blocks.
func (d Decision) confirmedOnly(policy Policy) bool {
	for _, f := range d.Suites {
		if len(f.Broken) > 0 || f.SignTestP != nil && 2**f.SignTestP <= policy.limit() ||
			f.AdjustedNoSkill != nil && *f.AdjustedNoSkill <= policy.limit() {
			return false
		}
	}
	return true
}

// judge reads the verdict from the findings, the plainest reason first. Blocks come before the
// check for too few cases: harm that is proven on few cases is proven.
func (d Decision) judge(policy Policy) (Verdict, string) {
	if len(d.Suites) == 0 {
		return Skipped, "no suite has cases for this skill"
	}
	for _, f := range d.Suites {
		if len(f.Broken) > 0 {
			return Block, fmt.Sprintf("%s passed before and fails now, and its outcome cannot vary", f.Broken[0])
		}
	}
	for _, f := range d.Suites {
		if f.AdjustedP <= policy.limit() {
			reason := fmt.Sprintf("worse on %d and better on %d of %d cases (p = %.2g)", len(f.Worse), len(f.Better),
				f.decided(), f.AdjustedP)
			if f.AdjustedP > FalseBlockRate {
				reason += fmt.Sprintf("; a block is lifted above %.2g", LiftAt)
			}
			return Block, reason
		}
		if p := f.AdjustedNoSkill; p != nil && *p <= policy.limit() {
			return Block, fmt.Sprintf("worse than no skill at all (p = %.2g)", *p)
		}
	}
	var decided, cases, newErrs, currentErrs, better, worse int
	for _, f := range d.Suites {
		better, worse = better+len(f.Better), worse+len(f.Worse)
		newErrs, currentErrs = newErrs+f.NewErrs, currentErrs+f.CurrentErrs
		decided += f.decided()
		cases += f.decided() + f.Undecided
	}
	// A version that crashes on the hard cases must not pass on the easy ones.
	if errs := newErrs + currentErrs; errs*maxOneArm > cases {
		return Inconclusive, oneArm(newErrs, currentErrs, cases)
	}
	if wanted := max(1, policy.MinCases); decided < wanted {
		return Inconclusive, fmt.Sprintf("%d cases were decided on both versions, and %d are needed", decided, wanted)
	}
	if worse == 0 {
		return Pass, fmt.Sprintf("better on %d of %d cases, worse on none", better, decided)
	}
	return Pass, fmt.Sprintf("better on %d, worse on %d of %d cases, which proves nothing", better, worse, decided)
}

// maxOneArm: where more than one case in so many has a verdict of one version only, the
// cases that are left say little about the others.
const maxOneArm = 5

// oneArm says which version errs, e.g. "10 of 20 cases have no verdict of the new
// version, whose trials ended as errors".
func oneArm(newErrs, currentErrs, cases int) string {
	const text = "%d of %d cases have no verdict of the %s version, whose trials ended as errors"
	switch {
	case currentErrs == 0:
		return fmt.Sprintf(text, newErrs, cases, "new")
	case newErrs == 0:
		return fmt.Sprintf(text, currentErrs, cases, "current")
	}
	return fmt.Sprintf("%d of %d cases have no verdict of the new version, and %d have none of the current one: their trials ended as errors",
		newErrs, cases, currentErrs)
}

// decided is the number of cases with a verdict of both versions.
func (f Findings) decided() int { return len(f.Better) + len(f.Worse) + f.Unchanged }

// examine computes the findings of a suite. Cases with a fixed outcome stay out of the tests:
// they aren't samples.
func examine(s Suite) Findings {
	f := Findings{Suite: s.ID, P: 1}
	var varying, harmed, helped int
	var against tally
	for _, c := range s.Cases {
		against.add(c.WithoutASkill, c.Beside)
		if !c.decided() {
			f.Undecided++
			if c.New.Decided > 0 {
				f.CurrentErrs++
			} else if c.Current.Decided > 0 {
				f.NewErrs++
			}
			continue
		}
		if !c.Fixed {
			varying++
		}
		switch now, before := c.New.Rate(), c.Current.Rate(); {
		case now == before:
			f.Unchanged++
		case now > before:
			f.Better = append(f.Better, c.ID)
			if !c.Fixed {
				helped++
			}
		default:
			f.Worse = append(f.Worse, c.ID)
			if c.Fixed {
				f.Broken = append(f.Broken, c.ID)
				break
			}
			harmed++
			if c.FreshNew.Decided > 0 && c.FreshCurrent.Decided > 0 {
				f.Confirmed = append(f.Confirmed, Confirmation{Case: c.ID, FisherP: stats.Fisher(
					c.FreshNew.Passed, c.FreshNew.Decided, c.FreshCurrent.Passed, c.FreshCurrent.Decided)})
			}
		}
	}
	if n := f.decided(); n > 0 {
		low, high := stats.PairedDifference(float64(len(f.Better)), float64(len(f.Worse)), n)
		f.Interval = &[2]float64{low, high}
	}
	if varying > 0 {
		p := stats.SignTest(harmed, helped)
		f.SignTestP = &p
		// Two steps share the error: twice the smaller p-value of them. The second
		// step has one test for each case that looked worse.
		f.P = min(1, 2*p)
		for _, c := range f.Confirmed {
			// Bonferroni over all harmed cases, also those without fresh trials yet.
			f.P = min(f.P, 2*float64(harmed)*c.FisherP)
		}
	}
	f.WorseThanNoSkill = against.p()
	return f
}

// A tally compares the new version with no skill.
type tally struct{ worse, better, pairs int }

// add takes a case that both arms decided.
func (t *tally) add(without, with Count) {
	if without.Decided == 0 || with.Decided == 0 {
		return
	}
	t.pairs++
	switch {
	case with.Rate() < without.Rate():
		t.worse++
	case with.Rate() > without.Rate():
		t.better++
	}
}

// p is nil without pairs: no test was made, and the family must not count one.
func (t tally) p() *float64 {
	if t.pairs == 0 {
		return nil
	}
	p := stats.SignTest(t.worse, t.better)
	return &p
}

// toRetry are the cases that look worse, can vary and still lack fresh trials.
func toRetry(suites []Suite, found []Findings, lacks func(Case) bool) map[string][]string {
	again := map[string][]string{}
	for i, s := range suites {
		for _, c := range s.Cases {
			if !c.Fixed && slices.Contains(found[i].Worse, c.ID) && lacks(c) {
				again[s.ID] = append(again[s.ID], c.ID)
			}
		}
	}
	if len(again) == 0 {
		return nil
	}
	return again
}

// EnoughHarm reports, after any number of cases of one of several suites, whether
// so many got worse that the others need not be tried. tests is the size of the family:
// suites and comparisons with no skill. stopAt is multiplied by it, which is Bonferroni's
// correction for e-values.
func EnoughHarm(s Suite, tests int) bool {
	worse, better := 0, 0
	for _, c := range s.Cases {
		switch {
		case !c.decided() || c.New.Rate() == c.Current.Rate():
		case c.New.Rate() > c.Current.Rate():
			better++
		case c.Fixed:
			return true
		default:
			worse++
		}
	}
	return stats.HarmEvidence(worse, better) >= stopAt*float64(tests)
}
