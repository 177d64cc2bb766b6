package runs

import (
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// A Summary is the result of a run. It is zero until the run is over.
type Summary struct {
	Passed, Failed, Errors, Skipped int // cases
	// Score is the mean over the decided cases of the share of their trials that passed.
	// Unlike PassRate it does not grow with the number of trials.
	Score *stats.Estimate
	Lift  *Lift // nil without a baseline
	// PassRate is the share of passes among the decided cases, each by the majority
	// of its trials; nil if there are none.
	PassRate *float64
	Interval *[2]float64 // Wilson interval of 95 %
	// PassK is the share of the decided cases all of whose decided trials passed.
	PassK    *float64
	Baseline *Comparison
	// Tried are the trials that were not skipped, of both arms, and TrialErrors
	// those of them without a verdict.
	Tried, TrialErrors int
}

// maxErrorShare is the reciprocal of the largest tolerable share of trials without a
// verdict, i.e. a fifth. Above it a rate says little about the skill.
const maxErrorShare = 5

// Reliable reports whether so few trials ended as error that the rate means
// something. It does not change the rate.
func (s Summary) Reliable() bool { return maxErrorShare*s.TrialErrors <= s.Tried }

// A Comparison is the result of the baseline, on the cases that both arms
// decided.
type Comparison = api.EvalBaseline

// A CaseResult is the result of the trials of a case.
type CaseResult struct {
	// Verdict is nil while trials are missing and none has a verdict.
	Verdict  *Verdict
	Score    *float64 // the mean of its decided trials
	Baseline *Verdict // nil without a baseline
	Trials   []Trial  // with the skill first, then the baseline's, by number
	// Count is of the trials with the skill.
	Count, BaselineCount stats.Count
}

// A tally counts the trials of one case and arm.
type tally struct {
	passed, failed, errors, skipped int
	score                           float64 // sum over the decided
}

func (t *tally) add(trial Trial) {
	switch trial.Verdict {
	case Pass:
		t.passed++
	case Fail:
		t.failed++
	case Error:
		t.errors++
	case Skipped:
		t.skipped++
	}
	if trial.Score != nil {
		t.score += *trial.Score
	}
}

// verdict returns the verdict of the majority of decided trials; nil if there are no
// trials. A tie passes, except where the skill must not trigger: half isn't enough to
// show that it doesn't.
func (t tally) verdict(e suites.Expectation) *Verdict {
	decided := t.passed + t.failed
	verdict := Fail
	switch {
	case decided == 0 && t.errors > 0:
		verdict = Error
	case decided == 0 && t.skipped > 0:
		verdict = Skipped
	case decided == 0:
		return nil
	case 2*t.passed > decided, 2*t.passed == decided && e != suites.ShouldNotTrigger:
		verdict = Pass
	}
	return &verdict
}

// Majority returns the verdict on a case by its trials; nil if there are none.
func Majority(trials []Trial, e suites.Expectation) *Verdict {
	var t tally
	for _, trial := range trials {
		t.add(trial)
	}
	return t.verdict(e)
}

func (t tally) count() stats.Count {
	return stats.Count{Passed: t.passed, Decided: t.passed + t.failed}
}

// mean is the mean score of the decided trials; nil if there are none.
func (t tally) mean() *float64 {
	decided := t.passed + t.failed
	if decided == 0 {
		return nil
	}
	mean := t.score / float64(decided)
	return &mean
}

// resultsOf groups trials, in the order of byTrial, by their cases. The verdicts are those of
// the baseline's first arm.
func resultsOf(b Baseline, cases []suites.Case, trials []Trial) []CaseResult {
	main := b.Arms()[0]
	all := make([]CaseResult, len(cases))
	skill, baseline := make([]tally, len(cases)), make([]tally, len(cases))
	for _, t := range trials {
		if t.Arm == main {
			skill[t.Case].add(t)
		} else {
			baseline[t.Case].add(t)
		}
		all[t.Case].Trials = append(all[t.Case].Trials, t)
	}
	for i, c := range cases {
		r := &all[i]
		r.Verdict, r.Baseline = skill[i].verdict(c.Expectation), baseline[i].verdict(c.Expectation)
		r.Score, r.Count, r.BaselineCount = skill[i].mean(), skill[i].count(), baseline[i].count()
	}
	return all
}

// skipUndecided marks the cases that a run didn't reach as skipped.
func skipUndecided(all []CaseResult) {
	for i := range all {
		if all[i].Verdict == nil {
			skipped := Skipped
			all[i].Verdict = &skipped
		}
	}
}

// summarize adds up the cases of a run that is over, each of which has a verdict.
func summarize(all []CaseResult) (s Summary) {
	allPass := 0
	counts := make([]stats.Count, len(all))
	for i, r := range all {
		counts[i] = r.Count
		for _, t := range r.Trials {
			if t.Verdict != Skipped {
				s.Tried++
			}
			if t.Verdict == Error {
				s.TrialErrors++
			}
		}
		switch *r.Verdict {
		case Pass:
			s.Passed++
		case Fail:
			s.Failed++
		case Error:
			s.Errors++
		case Skipped:
			s.Skipped++
		}
		if r.Verdict.Decided() && r.Count.Passed == r.Count.Decided {
			allPass++
		}
	}
	s.Score, s.Lift, s.Baseline = stats.Score(counts), liftOf(all), compare(all)
	decided := s.Passed + s.Failed
	if decided == 0 {
		return s
	}
	rate, passK := share(s.Passed, decided), share(allPass, decided)
	low, high := stats.Wilson(rate, decided)
	s.PassRate, s.Interval, s.PassK = &rate, &[2]float64{low, high}, &passK
	return s
}

// compare counts only the cases that both arms decided: a case that the baseline
// couldn't decide must not favour the skill.
func compare(all []CaseResult) *Comparison {
	both, with, without := 0, 0, 0
	for _, r := range all {
		if r.Baseline == nil || !r.Baseline.Decided() || !r.Verdict.Decided() {
			continue
		}
		both++
		if *r.Verdict == Pass {
			with++
		}
		if *r.Baseline == Pass {
			without++
		}
	}
	if both == 0 {
		return nil
	}
	rate, base := share(with, both), share(without, both)
	return &Comparison{PassRate: base, Delta: rate - base, NormalizedGain: stats.Gain(rate, base)}
}

func share(part, whole int) float64 { return float64(part) / float64(whole) }
