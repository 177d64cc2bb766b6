package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
)

const (
	compareArms   = 4
	compareCases  = 50
	compareTrials = 3
	compareRatio  = 1.2
	decisionLimit = 50 // milliseconds
)

// benchCompare measures what a comparison adds to the runs of its arms, and the decision of the
// largest one.
func benchCompare(ctx context.Context, l *lab) ([]row, error) {
	together, alone, err := l.timeComparison(ctx)
	if err != nil {
		return nil, err
	}
	return []row{
		{
			Name:   fmt.Sprintf("compare: %d arms x %d cases x %d trials", compareArms, compareCases, compareTrials),
			Figure: millis(together), Unit: "ms", Beside: "the runs alone", Other: millis(alone), AtMost: compareRatio,
		},
		{
			Name:   fmt.Sprintf("compare: decide %d arms x 500 cases", comparisons.MaxArms),
			Figure: timeRecommendation(l.rounds()), Unit: "ms", Beside: limit, Other: decisionLimit, AtMost: 1,
		},
	}, nil
}

// timeRecommendation returns the best time of a decision in milliseconds.
func timeRecommendation(rounds int) float64 {
	random := rand.New(rand.NewPCG(3, 4)) // trials of a benchmark
	arms := make([]comparisons.Outcome, comparisons.MaxArms)
	for i := range arms {
		usd := 1 / float64(1+i)
		arms[i] = comparisons.Outcome{Name: fmt.Sprint(i), NoSkill: i == 0, Counts: make([]stats.Count, 500), PerPass: &usd}
		for k := range arms[i].Counts {
			arms[i].Counts[k] = stats.Count{Passed: random.IntN(31), Decided: 30}
		}
	}
	var times []float64
	for range 20 * rounds {
		start := time.Now()
		comparisons.Recommend(arms, comparisons.Pairs(arms), comparisons.DefaultMargin)
		times = append(times, float64(time.Since(start))/float64(time.Millisecond))
	}
	return slices.Min(times)
}

// timeComparison returns the best times of a comparison and of the same runs alone, which take
// turns.
func (l *lab) timeComparison(ctx context.Context) (together, alone time.Duration, err error) {
	e, err := l.startEvaluator(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer e.stop()
	versions := []string{firstVersion}
	for i := 1; i < compareArms; i++ {
		version := fmt.Sprintf("9.0.%d", i)
		content, err := archive(ctx, uint64(i))
		if err != nil {
			return 0, 0, err
		}
		req, err := e.publication(ctx, 0, version, content)
		if err != nil {
			return 0, 0, err
		}
		if err := call(req, http.StatusCreated, nil); err != nil {
			return 0, 0, err
		}
		versions = append(versions, version)
	}
	cases := make([]map[string]any, compareCases)
	for i := range cases {
		cases[i] = map[string]any{"case_kind": "exact_match", "command": []string{"echo", fmt.Sprint(i)}, "expected": fmt.Sprintf("%d\n", i)}
	}
	together, alone = time.Hour, time.Hour
	for range l.rounds() + 1 { // one warms up
		// A suite of its own: a comparison would use the trials of the one before.
		suite, err := e.suite(ctx, "deterministic", cases)
		if err != nil {
			return 0, 0, err
		}
		one, err := e.runAll(ctx, suite, versions)
		if err != nil {
			return 0, 0, err
		}
		other, err := e.compare(ctx, suite, versions)
		if err != nil {
			return 0, 0, err
		}
		alone, together = min(alone, one), min(together, other)
	}
	return together, alone, nil
}

// compare compares versions to the end, and returns how long that took.
func (e *evaluator) compare(ctx context.Context, suite string, versions []string) (time.Duration, error) {
	var arms []map[string]string
	for _, v := range versions {
		arms = append(arms, map[string]string{"entry_id": e.entries[0], "version": v})
	}
	type comparison struct {
		ID, Status string
		Arms       []struct{ Cases int }
	}
	var made struct{ Comparison comparison }
	start := time.Now()
	body := map[string]any{"suite_id": suite, "trials": compareTrials, "arms": arms}
	if err := e.ask(ctx, "/api/v1/comparisons", http.StatusAccepted, body, &made); err != nil {
		return 0, err
	}
	for {
		if err := e.get(ctx, "/api/v1/comparisons/"+made.Comparison.ID, &made); err != nil {
			return 0, err
		}
		switch c := made.Comparison; c.Status {
		case "queued", "running":
			time.Sleep(5 * time.Millisecond)
		case "succeeded":
			for _, a := range c.Arms {
				if a.Cases != compareCases {
					return 0, fmt.Errorf("%d of %d cases were decided", a.Cases, compareCases)
				}
			}
			return time.Since(start), nil
		default:
			return 0, errors.New("the comparison has " + c.Status)
		}
	}
}

// runAll runs a suite on versions at once, to the end of the last run.
func (e *evaluator) runAll(ctx context.Context, suite string, versions []string) (time.Duration, error) {
	path := "/api/v1/eval-suites/" + suite + "/runs"
	start := time.Now()
	for _, v := range versions {
		body := map[string]any{"subject": map[string]string{"entry_id": e.entries[0], "version": v}, "trials": compareTrials}
		if err := e.ask(ctx, path, http.StatusAccepted, body, nil); err != nil {
			return 0, err
		}
	}
	for {
		var list struct {
			Runs []struct {
				Status string
				Totals struct{ Passed int }
			}
		}
		if err := e.get(ctx, path, &list); err != nil {
			return 0, err
		}
		done := 0
		for _, r := range list.Runs {
			switch {
			case r.Status == "succeeded" && r.Totals.Passed == compareCases:
				done++
			case r.Status != "queued" && r.Status != "running":
				return 0, fmt.Errorf("a run has %s with %d passes", r.Status, r.Totals.Passed)
			}
		}
		if done == len(versions) {
			return time.Since(start), nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}
