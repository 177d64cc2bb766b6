package alerts

import (
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func windowStats(passRate float64, graded int64) skills.WindowStats {
	return skills.WindowStats{PassRate: &passRate, GradedSessions: graded, CreatedAt: noon.AddDate(-1, 0, 0)}
}

func TestEvaluatePassRate(t *testing.T) {
	for _, c := range []struct {
		name        string
		rate        float64
		graded      int64
		sensitivity Sensitivity
		want        verdict
	}{
		{"four sessions say nothing", 0, 4, Point, insufficient},
		{"five do", 0, 5, Point, breached},
		{"at the threshold", 0.8, 5, Point, healthy},
		{"just below", 0.799, 1000, Point, breached},
		{"below, but not surely", 0.6, 10, Confident, healthy},
		{"surely below", 0.6, 100, Confident, breached},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Rule{Type: PassRateBelow, Threshold: 0.8, Sensitivity: c.sensitivity}
			if got := r.evaluate(figures{WindowStats: windowStats(c.rate, c.graded)}, noon); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	none := Rule{Type: PassRateBelow, Threshold: 0.8}.evaluate(figures{}, noon)
	if none != insufficient {
		t.Errorf("no data at all: %v, want insufficient", none)
	}
}

func TestEvaluateNoData(t *testing.T) {
	at := func(d time.Duration) *time.Time { t := noon.Add(-d); return &t }
	const day = 24 * time.Hour
	for _, c := range []struct {
		name      string
		threshold float64
		last      *time.Time
		created   time.Duration // of the rule, before noon
		want      verdict
	}{
		{"seen recently", 7, at(7*day - time.Second), 0, healthy},
		{"silent for exactly as long", 7, at(7 * day), 0, breached},
		{"never seen, new rule", 7, nil, day, healthy},
		{"never seen, old rule", 7, nil, 8 * day, breached},
		{"zero: today", 0, at(11 * time.Hour), 0, healthy},
		{"zero: yesterday", 0, at(13 * time.Hour), 0, breached},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Rule{Type: NoData, Threshold: c.threshold, CreatedAt: noon.Add(-c.created)}
			s := skills.WindowStats{LastSeenAt: c.last, CreatedAt: noon.AddDate(-1, 0, 0)}
			if got := r.evaluate(figures{WindowStats: s}, noon); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	type step struct {
		after time.Duration
		saw   verdict
		want  Transition
	}
	const minute = time.Minute
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"fires once", []step{{0, breached, Firing}, {minute, breached, none}, {minute, breached, none}}},
		{"resolves after two healthy evaluations", []step{{0, breached, Firing}, {minute, healthy, none}, {minute, healthy, Resolved}, {minute, healthy, none}}},
		{"one healthy evaluation is not enough", []step{{0, breached, Firing}, {minute, healthy, none}, {minute, breached, none}, {minute, healthy, none}, {minute, healthy, Resolved}}},
		{"reminds once a day", []step{{0, breached, Firing}, {23 * time.Hour, breached, none}, {time.Hour, breached, Reminder}, {minute, breached, none}, {24 * time.Hour, breached, Reminder}}},
		{"too little data changes no state", []step{{0, insufficient, none}, {0, breached, Firing}, {time.Hour, insufficient, none}, {48 * time.Hour, insufficient, Reminder}, {minute, healthy, none}, {minute, healthy, Resolved}}},
		{"between the limits it goes on firing", []step{{0, undecided, none}, {0, breached, Firing}, {minute, undecided, none}, {minute, healthy, none}, {minute, undecided, none}, {minute, healthy, none}, {minute, healthy, Resolved}}},
		{"fires again", []step{{0, breached, Firing}, {minute, healthy, none}, {minute, healthy, Resolved}, {minute, breached, Firing}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, now, sequence := State{State: ok}, noon, 0
			for i, step := range c.steps {
				now = now.Add(step.after)
				var got Transition
				s, got, _ = s.next(step.saw, now, false)
				if got != step.want {
					t.Fatalf("step %d: %q, want %q", i, got, step.want)
				}
				if got != none {
					sequence++
				}
				if s.Sequence != sequence {
					t.Errorf("step %d: sequence %d, want %d", i, s.Sequence, sequence)
				}
			}
		})
	}
}
