package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A lab is what the benchmarks share: the binary, a folder to work in, and for
// how long they measure.
type lab struct {
	root   string // the repository
	dir    string // removed at the end
	binary string
	quick  bool
	full   bool
}

func newLab(ctx context.Context, o options) (*lab, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "whetstone-bench-")
	if err != nil {
		return nil, err
	}
	l := &lab{root: root, dir: dir, binary: filepath.Join(dir, "whetstone"), quick: o.quick, full: o.full}
	if err := l.build(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// build makes the binary as a release has it.
func (l *lab) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w",
		"-o", l.binary, "./cmd/whetstone")
	cmd.Dir = l.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return nil
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

// folder makes an empty folder that goes with the lab.
func (l *lab) folder(name string) (string, error) {
	return os.MkdirTemp(l.dir, name+"-")
}

// rounds is how often the sides of a comparison take turns.
func (l *lab) rounds() int {
	if l.quick {
		return 1
	}
	return 5
}

// span is how long one side is under load in one round.
func (l *lab) span() time.Duration {
	if l.quick {
		return time.Second
	}
	return 3 * time.Second
}

// A summary is the best of each figure over the rounds of one side: whatever
// else the machine does makes a figure worse and never better.
type summary struct {
	rate     float64 // requests a second
	perWork  float64 // requests a second of the server's processor time, over all rounds
	p50, p99 float64 // milliseconds
}

// A side makes the load of one round of a comparison.
type side func(round int) (load, error)

// compare lets the sides take turns, so that what else the machine does meets
// them all, and returns a summary of each. A first round warms up and is not
// counted.
func (l *lab) compare(ctx context.Context, sides ...side) ([]summary, error) {
	results := make([][]result, len(sides))
	for round := range l.rounds() + 1 {
		for i, s := range sides {
			next, err := s(round)
			if err != nil {
				return nil, err
			}
			r, err := next.run(ctx)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				results[i] = append(results[i], r)
			}
		}
	}
	summaries := make([]summary, len(sides))
	for i, rounds := range results {
		summaries[i] = summarise(rounds)
	}
	return summaries, nil
}

func summarise(rounds []result) summary {
	s := summary{p50: math.Inf(1), p99: math.Inf(1)}
	var requests int
	var worked time.Duration
	for _, r := range rounds {
		requests += len(r.latencies)
		worked += r.worked
		s.rate = max(s.rate, r.rate())
		s.p50 = min(s.p50, millis(r.quantile(0.5)))
		s.p99 = min(s.p99, millis(r.quantile(0.99)))
	}
	if worked > 0 {
		s.perWork = float64(requests) / worked.Seconds()
	}
	return s
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// environment is the caller's, without settings of Whetstone that would
// change what is measured.
func environment(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "WHETSTONE_")
	})
	return append(env, more...)
}
