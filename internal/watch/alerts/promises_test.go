package alerts

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/stats/statstest"
)

const (
	// documentedWeeks and documentedSkills are the size of the simulation in docs/alerts.md.
	documentedWeeks, documentedSkills = 40_000, 400
	// promised is the most false alarms in 1,000 weeks of a sound skill.
	promised = 1.0
	// takenBackPromised is the most harmless versions of 1,000 that are taken back in four
	// weeks, where the version before has 200 graded sessions.
	takenBackPromised = 4.0
)

// TestPromises simulates the rules with the code in force, and compares that with
// docs/alerts.md. At full size (make promises) the tables must be exactly those of the
// simulation; a small sample must agree with the first.
func TestPromises(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, docs, _ := strings.Cut(string(text), "## False alarms")
	lines := strings.Split(docs, "\n")
	for _, threshold := range []float64{0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95} {
		if statstest.Full() {
			wantRow(t, lines, fmt.Sprintf("| %.2f |", threshold), steadyRow(t, threshold))
			wantRow(t, lines, fmt.Sprintf("| %.2f, uneven |", threshold), unevenRow(t, threshold))
			continue
		}
		sampleOf(t, threshold, lines)
	}
	if !statstest.Full() {
		return
	}
	wantRow(t, lines, "| only 5 points above 0.80: not sound |", unpromisedRow(course{threshold: 0.8, above: 0.05, weeks: 50}))
	wantRow(t, lines, "| threshold 0.80, days that differ by 10 points |",
		unpromisedRow(course{threshold: 0.8, spread: 0.1, weeks: 50}))
	for _, rate := range []float64{0.95, 0.9, 0.7} {
		for _, before := range []int{20, 50, 200} {
			wantRow(t, lines, fmt.Sprintf("| %.0f %% in %d |", 100*rate, before), releaseRow(t, rate, before))
		}
	}
	for _, above := range []float64{1.2, 1.5, 2} {
		rule := Rule{Type: CostAbove, Threshold: above, Sensitivity: Confident}
		wantRow(t, lines, fmt.Sprintf("| `cost_above`, %g times the median |", above), usageRow(usage{rule: rule, spread: 0.5}))
	}
	for _, share := range []float64{0.1, 0.3, 0.6} {
		rule := Rule{Type: SilentFall, Threshold: defaultFall, Sensitivity: Confident}
		wantRow(t, lines, fmt.Sprintf("| `silent_fall`, used in %.0f %% |", 100*share), usageRow(usage{rule: rule, share: share}))
	}
}

// wantRow wants a row of a documented table.
func wantRow(t *testing.T, lines []string, begin, row string) {
	t.Helper()
	documented := "nothing"
	for _, l := range lines {
		if strings.HasPrefix(l, begin) {
			documented = l
		}
	}
	if documented != begin+row {
		t.Errorf("docs/alerts.md has %s, the simulation gives %s%s", documented, begin, row)
	}
}

// alarmsOf simulates a promised cell.
func alarmsOf(t *testing.T, what string, c course) string {
	alarms := c.falseAlarms(documentedWeeks)
	statstest.Report(t, statstest.Promise{
		What: fmt.Sprintf("alerts: sequential, threshold %.2f, %s: false alarms in 1,000 weeks of a sound skill", c.threshold, what),
		Goal: fmt.Sprint(promised), Measured: alarms.String(), Met: alarms.Value() <= promised,
	})
	return alarms.String()
}

// steadyRow simulates skills with as many sessions on each day.
func steadyRow(t *testing.T, threshold float64) (row string) {
	for _, perDay := range []int{1, 5, 20, 100} {
		c := course{threshold: threshold, perDay: perDay, weeks: 50}
		row += fmt.Sprintf(" %s; %d/%d/%d |", alarmsOf(t, fmt.Sprintf("%d sessions a day", perDay), c),
			c.delay(0.2, documentedSkills), c.delay(0.3, documentedSkills), c.delay(0.4, documentedSkills))
	}
	return row
}

// unevenRow simulates first weeks, growth, quiet weeks, and days that differ.
func unevenRow(t *testing.T, threshold float64) (row string) {
	spread := min(0.05, (1-soundRate(threshold))/2)
	for _, c := range []struct {
		what string
		course
	}{
		{"first week, 100 sessions a day", course{perDay: 100, weeks: 1, fresh: true}},
		{"first week, 300 sessions a day", course{perDay: 300, weeks: 1, fresh: true}},
		{"2 sessions a day, doubled each week", course{weeks: 8, fresh: true, sessions: func(day int) int {
			return 2 << (day / WindowDays)
		}}},
		{"100 sessions a day in one week of three", course{perDay: 100, weeks: 51, sessions: func(day int) int {
			if day/WindowDays%3 == 0 {
				return 100
			}
			return 0
		}}},
		{"days that differ, 20 sessions a day", course{perDay: 20, weeks: 50, spread: spread}},
		{"days that differ, 100 sessions a day", course{perDay: 100, weeks: 50, spread: spread}},
	} {
		c.threshold = threshold
		row += " " + alarmsOf(t, c.what, c.course) + " |"
	}
	return row
}

// unpromisedRow simulates what has more false alarms.
func unpromisedRow(c course) (row string) {
	for _, c.perDay = range []int{5, 20, 100} {
		row += " " + c.falseAlarms(10_000).String() + " |"
	}
	return row
}

// releaseRow simulates harmless versions, and some that are worse by 20 and 30 points.
func releaseRow(t *testing.T, rate float64, before int) (row string) {
	for _, perDay := range []int{5, 20, 100} {
		v := successor{rate: rate, before: before, perDay: perDay}
		harmless, _ := v.takenBack(20_000)
		goal := "" // of few sessions before, the document says what there is
		if before >= 200 {
			goal = fmt.Sprint(takenBackPromised)
		}
		statstest.Report(t, statstest.Promise{
			What: fmt.Sprintf("alerts: worse_than_previous, %.2f in %d sessions, then %d a day: "+
				"harmless versions of 1,000 taken back in four weeks", rate, before, perDay),
			Goal: goal, Measured: harmless.String(), Met: goal == "" || harmless.Value() <= takenBackPromised,
		})
		row += " " + harmless.String()
		for _, v.fall = range []float64{0.2, 0.3} {
			share, median := v.takenBack(2_000)
			row += fmt.Sprintf("; %.0f %% after %d", share.Value()/10, median)
		}
		row += " |"
	}
	return row
}

// usageRow simulates alerts that promise nothing: the documents say what they do.
func usageRow(u usage) (row string) {
	for _, u.perDay = range []int{1, 5, 20} {
		row += " " + u.falseAlarms(10_000).String() + " |"
	}
	return row
}

// sampleOf simulates a documented cell, of 5 graded sessions a day, with fewer weeks.
func sampleOf(t *testing.T, threshold float64, lines []string) {
	var rate, spread float64
	var delay int
	begin := fmt.Sprintf("| %.2f |", threshold)
	for _, l := range lines {
		if row, found := strings.CutPrefix(l, begin); found {
			if _, err := fmt.Sscanf(strings.Split(row, "|")[1], "%g ± %g; %d/", &rate, &spread, &delay); err != nil {
				t.Fatalf("%q: %v", row, err)
			}
		}
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
