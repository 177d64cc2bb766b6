package web

import (
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
)

// A proof is the comparison of two texts as pages show it.
type proof struct {
	proposals.Proof
	Proved bool
}

// Difference is the interval of the difference, e.g. "+2 to +48 points".
func (p proof) Difference() string {
	if p.Interval == nil {
		return ""
	}
	return fmt.Sprintf("%+.0f to %+.0f points", 100*p.Interval[0], 100*p.Interval[1])
}

// Chance says what the p-value means, e.g. "A difference like this happens in 3 of 100
// comparisons of equally good texts."
func (p proof) Chance() string {
	if p.P == nil {
		return ""
	}
	if *p.P < 0.01 {
		return "A difference like this happens in fewer than 1 of 100 comparisons of equally good texts."
	}
	return fmt.Sprintf("A difference like this happens in %.0f of 100 comparisons of equally good texts.", 100**p.P)
}
