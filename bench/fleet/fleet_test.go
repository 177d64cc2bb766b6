package main

import (
	"math"
	"strings"
	"testing"
)

// TestShare checks that a day's parts are the day, in every number of zones.
func TestShare(t *testing.T) {
	for zones := 1; zones <= 24; zones++ {
		d := day{zones: zones}
		sum := 0.0
		for second := range seconds {
			sum += d.share(second)
		}
		if math.Abs(sum-1) > 0.001 {
			t.Errorf("%d zones: the parts of the day add up to %g", zones, sum)
		}
	}
}

// TestServe checks a queue that can be worked out by hand: four seconds of work in
// the first second, for two cores that do the half in it.
func TestServe(t *testing.T) {
	arrivals := make([]float64, 120)
	arrivals[0] = 4
	got := serve(arrivals, 2)
	if got.busiest != 4.0/60/2 || got.wait != 1 {
		t.Errorf("got %+v, want 1/30 of the minute and a second's wait", got)
	}
}

// TestPlan checks that more load never needs less, that no figure is beyond its bound,
// and that the same seed gives the same answer.
func TestPlan(t *testing.T) {
	costs, err := parseFigures(recorded)
	if err != nil {
		t.Fatal(err)
	}
	h := typicalHardware()
	var before fleet
	for _, developers := range []int{1, 1_000, 50_000, 1_000_000, 5_000_000} {
		d := typicalDay()
		d.developers = developers
		f := plan(costs, d, h)
		if !h.holds(f.service) || !h.holds(f.database) || f.disk > h.disk*1e12 || f.cores > h.databaseCores {
			t.Errorf("%d developers: beyond the bounds: %+v %+v, %d cores, %g bytes", developers, f.service, f.database, f.cores, f.disk)
		}
		if f.processes < before.processes || f.shards < before.shards || f.monthly < before.monthly {
			t.Errorf("%d developers need %d processes and %d shards, fewer needed %d and %d", developers, f.processes, f.shards, before.processes, before.shards)
		}
		before = f
	}
	d := typicalDay()
	if a, b := plan(costs, d, h), plan(costs, d, h); a.service != b.service || a.database != b.database {
		t.Errorf("the same day gave %+v and %+v", a.database, b.database)
	}
}

func TestBadInput(t *testing.T) {
	for args, want := range map[string]string{
		"-developers 0":          "-developers",
		"-zones 25":              "-zones",
		"-busy 1":                "-busy",
		"-database-disk 0":       "-database-disk",
		"-figures fleet_test.go": "invalid character",
	} {
		if err := run(strings.Fields(args), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
}
