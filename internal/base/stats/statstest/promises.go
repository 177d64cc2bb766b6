// Package statstest has what simulations of decisions share: each package that
// decides by a statistical rule has a TestPromises, which simulates the rule with
// fixed seeds and reports a row for each promise. `make promises` runs them at full
// size and prints the rows; `go test` runs a small sample.
package statstest

import (
	"fmt"
	"math"
	"os"
	"testing"
)

// Full reports whether promises are checked at full size.
func Full() bool { return os.Getenv("WHETSTONE_PROMISES") == "full" }

// A Promise is a row of the table of `make promises`.
type Promise struct {
	What     string // e.g. "sequential, threshold 0.8, 5 sessions a day: false alarms in 1,000 skill-weeks"
	Goal     string // e.g. "1"
	Measured string // e.g. "0.6 ± 0.2"
	Met      bool
}

// Report prints promises, and fails the test for those that are not met. scripts/promises
// makes a table of these lines.
func Report(t testing.TB, all ...Promise) {
	t.Helper()
	for _, p := range all {
		verdict := "met"
		if !p.Met {
			verdict = "NOT MET"
			t.Errorf("%s: %s, want %s", p.What, p.Measured, p.Goal)
		}
		if Full() {
			fmt.Printf("promise: | %s | %s | %s | %s |\n", p.What, p.Goal, p.Measured, verdict)
		}
	}
}

// A Rate is how often something happened, per 1,000 units of exposure, e.g. false
// alarms in 1,000 skill-weeks.
type Rate struct {
	Events   int
	Exposure float64
}

// Value is the rate.
func (r Rate) Value() float64 { return float64(r.Events) / r.Exposure * 1000 }

// Error is half of the width of its 95 % interval. Without an event it is that of one.
func (r Rate) Error() float64 { return 1.96 * math.Sqrt(float64(max(1, r.Events))) / r.Exposure * 1000 }

// String is e.g. "0.6 ± 0.2".
func (r Rate) String() string {
	if r.Value() >= 100 {
		return fmt.Sprintf("%.0f ± %.0f", r.Value(), r.Error())
	}
	return fmt.Sprintf("%.2g ± %.1g", r.Value(), r.Error())
}

// AtMost reports whether the rate is at most a goal, as far as the simulation can tell.
func (r Rate) AtMost(goal float64) bool { return r.Value()-r.Error() <= goal }

// Agrees reports whether two simulations measured the same rate. Of sound ones, one in
// 10,000 pairs does not.
func (r Rate) Agrees(other Rate) bool {
	pooled := float64(r.Events+other.Events) / (r.Exposure + other.Exposure)
	spread := math.Sqrt(max(pooled, 1/(r.Exposure+other.Exposure)) * (1/r.Exposure + 1/other.Exposure))
	return math.Abs(r.Value()-other.Value())/1000 <= 3.9*spread+1/min(r.Exposure, other.Exposure)
}
