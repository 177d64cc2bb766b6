package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

const (
	gateCases  = 100
	gateTrials = 10 // on each of the three arms
	gateLimit  = 50 // milliseconds
	// wanted of the time of a push without a gate.
	gateOffRatio = 1.1
)

// benchGate measures the decision of a large gate, and what a gate that is off
// costs a push: one look for a policy.
func benchGate(ctx context.Context, l *lab) ([]row, error) {
	off, none, err := l.timePushes(ctx)
	if err != nil {
		return nil, err
	}
	return []row{
		{
			Name:   fmt.Sprintf("gate: decide %d cases x 3 arms x %d trials", gateCases, gateTrials),
			Figure: timeDecision(l.rounds()), Unit: "ms", Beside: limit, Other: gateLimit, AtMost: 1,
		},
		{Name: "gate: push with the gate off", Figure: off, Unit: "ms", Beside: "no gate", Other: none, AtMost: gateOffRatio},
	}, nil
}

// timeDecision returns the best time of a decision in milliseconds.
func timeDecision(rounds int) float64 {
	random := rand.New(rand.NewPCG(1, 2)) // trials of a benchmark
	try := func(p float64) (c decision.Count) {
		for range gateTrials {
			if c.Decided++; random.Float64() < p {
				c.Passed++
			}
		}
		return c
	}
	s := decision.Suite{ID: "s"}
	for i := range gateCases {
		p := 0.5 + random.Float64()/2
		s.Cases = append(s.Cases, decision.Case{ID: fmt.Sprint(i), Current: try(p), New: try(p), WithoutASkill: try(p / 2)})
	}
	var times []float64
	for range 100 * rounds {
		start := time.Now()
		decision.Decide([]decision.Suite{s}, decision.Policy{})
		times = append(times, float64(time.Since(start))/float64(time.Millisecond))
	}
	return slices.Min(times)
}

var pushLine = regexp.MustCompile(`BenchmarkPush/(off|none)\S*\s+\d+\s+([\d.]+) ns/op`)

// timePushes returns the best times of BenchmarkPush in internal/release/gates, in
// milliseconds: a push through the whole service would hide the difference.
func (l *lab) timePushes(ctx context.Context) (off, none float64, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkPush$", "-benchtime", "100x",
		"-count", strconv.Itoa(l.rounds()), "./internal/release/gates")
	cmd.Dir = l.root
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("go test -bench Push: %w\n%s", err, out)
	}
	times := map[string][]float64{}
	for _, match := range pushLine.FindAllSubmatch(out, -1) {
		ns, err := strconv.ParseFloat(string(match[2]), 64)
		if err != nil {
			return 0, 0, err
		}
		times[string(match[1])] = append(times[string(match[1])], ns/float64(time.Millisecond))
	}
	if len(times) != 2 {
		return 0, 0, fmt.Errorf("go test -bench Push printed no times:\n%s", out)
	}
	return slices.Min(times["off"]), slices.Min(times["none"]), nil
}
