package alerts

import (
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/skills"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func standing(passRate float64, graded int64) skills.Standing {
	return skills.Standing{PassRate: &passRate, GradedSessions: graded, CreatedAt: noon.AddDate(-1, 0, 0)}
}

func TestJudgePassRate(t *testing.T) {
	for _, c := range []struct {
		name        string
		rate        float64
		graded      int64
		sensitivity Sensitivity
		want        verdict
	}{
		{"four sessions say nothing", 0, 4, Point, insufficient},
		{"five do", 0, 5, Point, bad},
		{"at the threshold", 0.8, 5, Point, fine},
		{"just below", 0.799, 1000, Point, bad},
		{"below, but not surely", 0.6, 10, Confident, fine},
		{"surely below", 0.6, 100, Confident, bad},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Rule{Type: PassRateBelow, Threshold: 0.8, Sensitivity: c.sensitivity}
			if got := r.judge(standing(c.rate, c.graded), noon); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	none := Rule{Type: PassRateBelow, Threshold: 0.8}.judge(skills.Standing{}, noon)
	if none != insufficient {
		t.Errorf("no data at all: %v, want insufficient", none)
	}
}

func TestJudgeNoData(t *testing.T) {
	at := func(d time.Duration) *time.Time { t := noon.Add(-d); return &t }
	const day = 24 * time.Hour
	for _, c := range []struct {
		name      string
		threshold float64
		last      *time.Time
		created   time.Duration // of the rule, before noon
		want      verdict
	}{
		{"heard of", 7, at(7*day - time.Second), 0, fine},
		{"silent for exactly as long", 7, at(7 * day), 0, bad},
		{"never seen, new rule", 7, nil, day, fine},
		{"never seen, old rule", 7, nil, 8 * day, bad},
		{"zero: today", 0, at(11 * time.Hour), 0, fine},
		{"zero: yesterday", 0, at(13 * time.Hour), 0, bad},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Rule{Type: NoData, Threshold: c.threshold, CreatedAt: noon.Add(-c.created)}
			s := skills.Standing{LastSeenAt: c.last, CreatedAt: noon.AddDate(-1, 0, 0)}
			if got := r.judge(s, noon); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	type step struct {
		after time.Duration
		see   verdict
		want  Transition
	}
	const minute = time.Minute
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"fires once", []step{{0, bad, Firing}, {minute, bad, none}, {minute, bad, none}}},
		{"resolves after two good looks", []step{{0, bad, Firing}, {minute, fine, none}, {minute, fine, Resolved}, {minute, fine, none}}},
		{"one good look is not enough", []step{{0, bad, Firing}, {minute, fine, none}, {minute, bad, none}, {minute, fine, none}, {minute, fine, Resolved}}},
		{"reminds once a day", []step{{0, bad, Firing}, {23 * time.Hour, bad, none}, {time.Hour, bad, Reminder}, {minute, bad, none}, {24 * time.Hour, bad, Reminder}}},
		{"too little data changes nothing", []step{{0, insufficient, none}, {0, bad, Firing}, {48 * time.Hour, insufficient, none}, {minute, fine, none}, {minute, fine, Resolved}}},
		{"fires again", []step{{0, bad, Firing}, {minute, fine, none}, {minute, fine, Resolved}, {minute, bad, Firing}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, now, sequence := State{State: ok}, noon, 0
			for i, step := range c.steps {
				now = now.Add(step.after)
				var got Transition
				s, got, _ = s.next(step.see, now)
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
