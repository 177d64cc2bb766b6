package search

import (
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

const (
	// ProofTrials is how often each case of the proof is tried with the winner and
	// with the current version.
	ProofTrials = 5
	// FalseProofRate is how often a winner that is no better is called proved.
	FalseProofRate = 0.05
)

// An Evidence is what the proof shows. Its trials were made for it alone.
type Evidence struct {
	Cases           int // with a verdict of both
	Current, Winner float64
	Better, Worse   int
	// P is the mid-p-value of the sign test that the winner is no better.
	P float64
	// Interval is Tango's of the share of cases that are better, minus that of
	// cases that are worse.
	Interval [2]float64
	Proved   bool
}

// Prove compares the winner (New) with the current version. Cases without a verdict of both are
// left out, which costs power but doesn't bias the result.
func Prove(cases []decision.Case) (e Evidence) {
	for _, c := range cases {
		if c.Current.Decided == 0 || c.New.Decided == 0 {
			continue
		}
		before, now := c.Current.Rate(), c.New.Rate()
		e.Cases++
		e.Current += before
		e.Winner += now
		switch {
		case now > before:
			e.Better++
		case now < before:
			e.Worse++
		}
	}
	if e.Cases > 0 {
		e.Current /= float64(e.Cases)
		e.Winner /= float64(e.Cases)
	}
	// Ties say nothing in a sign test: only better and worse cases count.
	e.P = stats.MidP(e.Better, e.Worse)
	e.Interval[0], e.Interval[1] = stats.PairedDifference(float64(e.Better), float64(e.Worse), e.Cases)
	e.Proved = e.P <= FalseProofRate
	return e
}

// IsBetter reports whether the winner did better than the current version, proved or not:
// on more cases than it did worse, and on the whole.
func (e Evidence) IsBetter() bool { return e.Better > e.Worse && e.Winner > e.Current }

// Regression says why the winner is worse than the current version on the whole
// suite; "" if that is not proved. It is the rule of gates without their second
// step, which the gate makes when the winner is published.
func Regression(cases []decision.Case) string {
	d := decision.Decide([]decision.Suite{{Cases: cases}}, decision.Policy{})
	if d.Verdict == decision.Block {
		return d.Reason
	}
	return ""
}
