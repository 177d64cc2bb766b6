package alerts

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/skills"
)

// simulateReference returns the false alarms in 1,000 skill-weeks of a sequential
// worse_than_previous: the version before and the current one pass soundRate of their
// sessions, and so many sessions of the version before were graded.
func simulateReference(perDay, graded, count, weeks int) float64 {
	alarms := 0
	rule := Rule{Type: WorseThanPrevious, Threshold: 0.1, Sensitivity: Sequential}
	for i := range count {
		random := rand.New(rand.NewPCG(11, uint64(i))) // a simulation
		passed := 0
		for range graded {
			if random.Float64() < soundRate {
				passed++
			}
		}
		rate := float64(passed) / float64(graded)
		limit, _ := rule.passRateLimit(figures{before: skills.Quality{GradedSessions: int64(graded), PassRate: &rate}})
		s := &simulated{random: random, rule: Rule{Type: PassRateBelow, Threshold: limit, Sensitivity: Sequential}, perDay: perDay}
		for range dispersionDays { // the dispersion becomes known
			s.day(soundRate)
		}
		s.state, s.evidence = State{}, 0
		for range weeks * 7 {
			alarms += s.day(soundRate).alarms
		}
	}
	return float64(alarms) / float64(count*weeks) * 1000
}

// referenceTable prints the second table of docs/alerts.md.
func referenceTable(t testing.TB, count, weeks int) {
	for _, graded := range []int{20, 50, 200} {
		var row strings.Builder
		fmt.Fprintf(&row, "| %d graded sessions before |", graded)
		for _, perDay := range []int{5, 20, 100} {
			alarms := simulateReference(perDay, graded, count, weeks)
			fmt.Fprintf(&row, " %.1f |", alarms)
		}
		t.Log(row.String())
	}
}

// BenchmarkReference is the table over 10,000 skill-weeks.
func BenchmarkReference(b *testing.B) {
	for b.Loop() {
		referenceTable(b, 1000, 10)
	}
}

// TestReference: a reference of few sessions gives hardly more false alarms than a
// fixed threshold.
func TestReference(t *testing.T) {
	t.Parallel()
	for graded, most := range map[int]float64{20: 5, 200: 4} {
		if alarms := simulateReference(20, graded, 100, 10); alarms > most {
			t.Errorf("after %d sessions, %.1f false alarms in 1,000 skill-weeks", graded, alarms)
		}
	}
}
