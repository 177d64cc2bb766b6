package skills_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// of returns n sessions of which some passed and the others failed.
func of(n, passed int) []float64 {
	return slices.Concat(slices.Repeat([]float64{1}, passed), slices.Repeat([]float64{0}, n-passed))
}

func TestStatus(t *testing.T) {
	third, sixth := 1.0/3, 1.0/6
	cases := []struct {
		name        string
		before, now []float64
		want        string
	}{
		{"nothing", nil, nil, "unknown"},
		{"4 graded sessions", nil, of(4, 0), "unknown"},
		{"5 graded sessions", nil, of(5, 0), "critical"},
		{"4 now, many before", of(20, 20), of(4, 4), "unknown"},
		{"just under 0.5", nil, of(101, 50), "critical"},
		{"0.5", nil, of(6, 3), "warning"},
		{"0.5 of thirds", nil, []float64{third, third, 5 * sixth, third, third, 5 * sixth}, "warning"},
		{"just under 0.8", nil, of(501, 400), "warning"},
		{"0.8", nil, of(5, 4), "healthy"},
		{"0.8 seven times", nil, slices.Repeat([]float64{0.8}, 7), "healthy"},
		{"1", nil, of(5, 5), "healthy"},
		{"no worse than before", of(400, 380), of(400, 380), "healthy"},
		{"drop of 0.10, disjoint", of(400, 380), of(400, 340), "warning"},
		{"drop of 0.0975, disjoint", of(400, 380), of(400, 341), "healthy"},
		{"drop of 0.10, overlapping", of(20, 20), of(20, 18), "healthy"},
		{"drop of 0.15, overlapping", of(20, 20), of(20, 17), "healthy"},
		{"rise", of(400, 200), of(400, 340), "healthy"},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				id := resolve(t, db, r.Org.ID, c.name)
				now := time.Now()
				r.grade(c.name, now.AddDate(0, 0, -30), c.before...) // the last day of the window before
				r.grade(c.name, now.AddDate(0, 0, -29), c.now...)    // the first day of the window
				wantFields(t, r.skill(id), object{
					"status": c.want, "graded_sessions": len(c.now), "has_evidence": len(c.before)+len(c.now) > 0,
				})
			})
		}
		wantSummaries(t, r)
		wantSummaries(t, r.org("other"))
	})
}

// wantSummaries checks that Summaries and List agree.
func wantSummaries(t *testing.T, r *room) {
	t.Helper()
	listed, _, err := r.s.List(t.Context(), r.Org.ID, skills.Filter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]skills.Summary, len(listed))
	for i, p := range listed {
		want[i] = skills.Summary{
			ID: p.ID, Name: p.Name, Status: p.Status, PassRate: p.PassRate, PassRateInterval: p.PassRateInterval,
			GradedSessions: p.GradedSessions, Bases: p.Bases,
		}
	}
	got, err := r.s.Summaries(t.Context(), r.Org.ID)
	if err == nil {
		err = r.s.AddBases(t.Context(), got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summaries (-want +got):\n%s", diff)
	}
}

// TestPassRateInterval compares with published values of the Wilson interval.
func TestPassRateInterval(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		r := newRoom(t, db)
		r.grade("pdf", time.Now(), of(10, 8)...)
		got := r.skill("pdf")["pass_rate_interval"].([]any)
		for i, want := range []float64{0.4902, 0.9433} {
			if f := got[i].(float64); f < want-5e-5 || f > want+5e-5 {
				t.Errorf("bound %d is %v, want %v", i, f, want)
			}
		}
	})
}
