// Package decision decides whether a version of a skill is worse than another,
// from the trials of both on the same cases, with a known rate of false blocks.
//
// It screens and confirms. The screen is a sign test over all cases; it finds
// what broke in many places. The cases that look worse in it are then tried
// again on both versions, and Fisher's test of those fresh trials alone finds
// what broke in one place. Each of the two steps blocks a harmless version in at
// most 2.5 % of all decisions; docs/gates.md has what they find.
package decision

import (
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/stats"
)

const (
	// FalseBlockRate is the highest share of harmless versions that are blocked.
	FalseBlockRate = 0.05
	// FreshTrials is how often a case that looks worse is tried again on each
	// version. With 15, four of five single broken cases are found.
	FreshTrials = 15
	// stopAt is the e-value at which the screen need not wait for the other
	// cases: the chance that a harmless version ever reaches it is 2.5 %.
	stopAt = 2 / FalseBlockRate
)

// A Count is how many of the decided trials of a case passed.
type Count = stats.Count

// A Case is what the trials of a case of a suite showed.
type Case struct {
	ID string
	// Fixed says that the outcome cannot vary, because the case checks a given
	// output: one regression is then a regression.
	Fixed         bool
	Current, New  Count
	FreshCurrent  Count // of the second step, empty before it
	FreshNew      Count
	WithoutASkill Count // empty where that arm did not run
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
	Undecided     int // without a verdict of one of the versions
	// Broken are the cases with a fixed outcome that passed before and fail now.
	Broken []string
	// SignTestP is nil where no case could vary.
	SignTestP *float64
	// Confirmed are the cases of the second step.
	Confirmed []Confirmation
	// Interval is that of the difference of the shares of passing cases.
	Interval *[2]float64
	// P is the suite's p-value over both steps, and AdjustedP that among all suites.
	P, AdjustedP float64
	// WorseThanNoSkill is the p-value of the hypothesis that the new version does
	// no harm compared to no skill at all; nil where that arm did not run.
	WorseThanNoSkill *float64
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

// Policy is what an organisation asks for beyond the statistics.
type Policy struct {
	MinCases int // decided ones, of all suites together
}

// Decide says what the trials so far mean. Where Again has cases, the verdict is
// that of the screen, and Decide wants to be asked again with their fresh trials.
func Decide(suites []Suite, policy Policy) Decision {
	d := Decision{Suites: make([]Findings, len(suites))}
	p := make([]float64, len(suites))
	decided := 0
	for i, s := range suites {
		d.Suites[i] = examine(s)
		p[i] = d.Suites[i].P
		decided += len(s.Cases) - d.Suites[i].Undecided
	}
	for i, adjusted := range stats.Holm(p) {
		d.Suites[i].AdjustedP = adjusted
	}
	d.Verdict, d.Reason = d.judge(decided, policy)
	if d.Verdict == Pass {
		d.Again = unconfirmed(suites, d.Suites)
	}
	return d
}

// judge reads the verdict from the findings, the plainest reason first.
func (d Decision) judge(decided int, policy Policy) (Verdict, string) {
	if len(d.Suites) == 0 {
		return Skipped, "no suite has cases for this skill"
	}
	for _, f := range d.Suites {
		if len(f.Broken) > 0 {
			return Block, fmt.Sprintf("%s passed before and fails now, and its outcome cannot vary", f.Broken[0])
		}
	}
	for _, f := range d.Suites {
		if f.AdjustedP <= FalseBlockRate {
			return Block, fmt.Sprintf("worse on %d and better on %d of %d cases (p = %.2g)",
				len(f.Worse), len(f.Better), f.decided(), f.AdjustedP)
		}
		if p := f.WorseThanNoSkill; p != nil && *p <= FalseBlockRate/2 {
			return Block, fmt.Sprintf("worse than no skill at all (p = %.2g)", *p)
		}
	}
	if decided < max(1, policy.MinCases) {
		return Inconclusive, fmt.Sprintf("%d cases were decided on both versions, and %d are needed", decided, max(1, policy.MinCases))
	}
	better, worse := 0, 0
	for _, f := range d.Suites {
		better, worse = better+len(f.Better), worse+len(f.Worse)
	}
	if worse == 0 {
		return Pass, fmt.Sprintf("better on %d of %d cases, worse on none", better, decided)
	}
	return Pass, fmt.Sprintf("better on %d, worse on %d of %d cases, which proves nothing", better, worse, decided)
}

func (f Findings) decided() int { return len(f.Better) + len(f.Worse) + f.Unchanged }

// examine computes the findings of a suite.
func examine(s Suite) Findings {
	f := Findings{Suite: s.ID, P: 1}
	var varying, harmed, helped int
	var against tally
	for _, c := range s.Cases {
		against.add(c.WithoutASkill, c.New)
		if !c.decided() {
			f.Undecided++
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
			f.P = min(f.P, 2*float64(harmed)*c.FisherP)
		}
	}
	f.WorseThanNoSkill = against.p()
	return f
}

// A tally compares the new version with no skill.
type tally struct{ worse, better, pairs int }

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

func (t tally) p() *float64 {
	if t.pairs == 0 {
		return nil
	}
	p := stats.SignTest(t.worse, t.better)
	return &p
}

// unconfirmed are the cases that look worse, can vary and have no fresh trials.
func unconfirmed(suites []Suite, found []Findings) map[string][]string {
	var again map[string][]string
	for i, s := range suites {
		confirmed := make(map[string]bool, len(found[i].Confirmed))
		for _, c := range found[i].Confirmed {
			confirmed[c.Case] = true
		}
		for _, id := range found[i].Worse {
			if confirmed[id] {
				continue
			}
			if again == nil {
				again = make(map[string][]string)
			}
			again[s.ID] = append(again[s.ID], id)
		}
	}
	return again
}

// EnoughHarm reports, after any number of cases of one of several suites, whether
// so many got worse that the others need not be tried.
func EnoughHarm(s Suite, suites int) bool {
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
	return stats.HarmEvidence(worse, better) >= stopAt*float64(suites)
}
