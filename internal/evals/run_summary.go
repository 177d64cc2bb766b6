package evals

import "github.com/whetstone-dev/whetstone/internal/stats"

// A Summary is what a run says about the skill. It is zero until the run is
// over.
type Summary struct {
	Passed, Failed, Errors, Skipped int // cases
	// PassRate is the share of passes among the cases with a verdict; nil if
	// there are none.
	PassRate *float64
	Interval *[2]float64 // Wilson's, of 95 %
	// PassK is the share of those cases of which every trial with a verdict
	// passed.
	PassK    *float64
	Baseline *Comparison
	// Tried are the trials that were not skipped, of both variants, and
	// TrialErrors those of them without a verdict.
	Tried, TrialErrors int
}

// maxErrors is the share of trials without a verdict, one in so many, above
// which a rate says little about the skill.
const maxErrors = 5

// Reliable reports whether few enough trials ended as error for the rate to be
// believed. It does not change the rate.
func (s Summary) Reliable() bool { return maxErrors*s.TrialErrors <= s.Tried }

// A Comparison is how the baseline did on the cases for which both it and the
// skill have a verdict.
type Comparison struct {
	PassRate float64 // the baseline's
	Delta    float64 // the skill's above it
	Gain     float64 // the share of the possible improvement that was reached
}

// A CaseResult is what the trials of a case say.
type CaseResult struct {
	// Verdict is nil while trials are missing of which none has a verdict.
	Verdict  *Verdict
	Score    *float64 // the mean of its trials
	Baseline *Verdict // nil without a baseline
	Trials   []Trial  // with the skill first, then the baseline's, by number

	allPass bool
}

// tally counts the trials of one case and variant.
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

// verdict is that of the majority of the trials that have one. Half is enough,
// but not to show that a skill does not trigger.
func (t tally) verdict(c Case) *Verdict {
	decided := t.passed + t.failed
	verdict := Fail
	switch {
	case decided == 0 && t.errors > 0:
		verdict = Error
	case decided == 0 && t.skipped > 0:
		verdict = Skipped
	case decided == 0:
		return nil
	case 2*t.passed > decided, 2*t.passed == decided && c.Expectation != ShouldNotTrigger:
		verdict = Pass
	}
	return &verdict
}

// mean is the mean score of the trials that have a verdict.
func (t tally) mean() *float64 {
	decided := t.passed + t.failed
	if decided == 0 {
		return nil
	}
	mean := t.score / float64(decided)
	return &mean
}

// results sorts trials, which come in their order, to the cases they are of.
func results(cases []Case, trials []Trial) []CaseResult {
	all := make([]CaseResult, len(cases))
	skill, base := make([]tally, len(cases)), make([]tally, len(cases))
	for _, t := range trials {
		if t.Variant == WithSkill {
			skill[t.Case].add(t)
		} else {
			base[t.Case].add(t)
		}
		all[t.Case].Trials = append(all[t.Case].Trials, t)
	}
	for i, c := range cases {
		r, t := &all[i], skill[i]
		r.Verdict, r.Baseline = t.verdict(c), base[i].verdict(c)
		r.allPass = t.failed == 0
		r.Score = t.mean()
	}
	return all
}

// end gives a verdict to the cases that the run did not come to.
func end(all []CaseResult) {
	for i := range all {
		if all[i].Verdict == nil {
			skipped := Skipped
			all[i].Verdict = &skipped
		}
	}
}

// summarize adds up the cases of a run that is over.
func summarize(all []CaseResult) (s Summary) {
	allPass := 0
	for _, r := range all {
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
		if r.Verdict.decided() && r.allPass {
			allPass++
		}
	}
	s.Baseline = compare(all)
	decided := s.Passed + s.Failed
	if decided == 0 {
		return s
	}
	rate, passK := share(s.Passed, decided), share(allPass, decided)
	low, high := stats.Wilson(rate, decided)
	s.PassRate, s.Interval, s.PassK = &rate, &[2]float64{low, high}, &passK
	return s
}

func compare(all []CaseResult) *Comparison {
	both, with, without := 0, 0, 0
	for _, r := range all {
		if r.Baseline == nil || !r.Baseline.decided() || !r.Verdict.decided() {
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
	return &Comparison{PassRate: base, Delta: rate - base, Gain: stats.Gain(rate, base)}
}

func share(part, whole int) float64 { return float64(part) / float64(whole) }
