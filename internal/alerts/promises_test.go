package alerts

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/stats/statstest"
)

const (
	// documentedWeeks and documentedSkills are the size of the simulation in docs/alerts.md.
	documentedWeeks, documentedSkills = 20_000, 300
	// promised is the most false alarms in 1,000 weeks of a sound skill.
	promised = 1.0
)

// TestPromises simulates the sequential rule, and compares that with docs/alerts.md. At
// full size (make promises) the first table must be exactly that of the simulation; a
// small sample must agree with it.
func TestPromises(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, docs, _ := strings.Cut(string(text), "## False alarms")
	for _, threshold := range []float64{0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95} {
		begin := fmt.Sprintf("| %.2f |", threshold)
		_, line, found := strings.Cut(docs, "\n"+begin)
		line, _, _ = strings.Cut(line, "\n")
		if !found {
			t.Errorf("docs/alerts.md has no row of the threshold %.2f", threshold)
			continue
		}
		if statstest.Full() {
			if got := documentedRow(t, threshold); got != line {
				t.Errorf("docs/alerts.md has %s%s, the simulation gives %s%s", begin, line, begin, got)
			}
			continue
		}
		sampleOf(t, threshold, strings.Split(line, "|")[1])
	}
}

// documentedRow simulates a row, and reports its promises.
func documentedRow(t *testing.T, threshold float64) (row string) {
	for _, perDay := range []int{1, 5, 20, 100} {
		c := course{threshold: threshold, perDay: perDay, weeks: 50}
		alarms := c.falseAlarms(documentedWeeks)
		row += fmt.Sprintf(" %s; %d/%d/%d |", alarms,
			c.delay(0.2, documentedSkills), c.delay(0.3, documentedSkills), c.delay(0.4, documentedSkills))
		statstest.Report(t, statstest.Promise{
			What: fmt.Sprintf("alerts: sequential, threshold %.2f, %d sessions a day: false alarms in 1,000 weeks of a sound skill", threshold, perDay),
			Goal: fmt.Sprint(promised), Measured: alarms.String(), Met: alarms.AtMost(promised),
		})
	}
	return row
}

// sampleOf simulates a documented cell, of 5 graded sessions a day, with fewer weeks.
func sampleOf(t *testing.T, threshold float64, cell string) {
	var rate, spread float64
	var delay int
	if _, err := fmt.Sscanf(cell, "%g ± %g; %d/", &rate, &spread, &delay); err != nil {
		t.Fatalf("%q: %v", cell, err)
	}
	c := course{threshold: threshold, perDay: 5, weeks: 50}
	known := statstest.Rate{Events: int(math.Round(rate * documentedWeeks / 1000)), Exposure: documentedWeeks}
	if got := c.falseAlarms(1_000); !got.Agrees(known) {
		t.Errorf("threshold %.2f: %s false alarms, %s documented", threshold, got, known)
	}
	if got := c.delay(0.2, 200); math.Abs(float64(got-delay)) > 0.3*float64(delay) {
		t.Errorf("threshold %.2f: a fall is noticed after %d sessions, %d documented", threshold, got, delay)
	}
}
