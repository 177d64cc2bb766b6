package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

const (
	sandboxStarts = 100
	sandboxLimit  = 30 // milliseconds
)

// benchSandbox measures what the walls cost a program that does nothing,
// beside bwrap with namespaces alone and beside no walls.
func benchSandbox(ctx context.Context, _ *lab) ([]row, error) {
	s, err := sandbox.New(sandbox.Options{})
	if err != nil {
		return nil, err
	}
	walled := func() error {
		result, err := s.Run(ctx, sandbox.Spec{Argv: []string{"true"}})
		if err == nil && result.ExitCode != 0 {
			err = fmt.Errorf("status %d: %s", result.ExitCode, result.Stderr.Tail)
		}
		return err
	}
	if err := walled(); fault.Is(err, fault.Unavailable) {
		return nil, fmt.Errorf("bubblewrap: %w", errMissing)
	}
	bare := func() error {
		return exec.CommandContext(ctx, "bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true").Run()
	}
	plain := func() error { return exec.CommandContext(ctx, "true").Run() }

	programs := []func() error{walled, bare, plain}
	times := make([][]time.Duration, len(programs))
	for range sandboxStarts {
		for i, run := range programs { // in turns: all meet the same machine
			start := time.Now()
			if err := run(); err != nil {
				return nil, err
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	p50 := func(i int) float64 {
		slices.Sort(times[i])
		return float64(times[i][len(times[i])/2].Microseconds()) / 1000
	}
	return []row{
		{Name: "sandbox: start to end, p50", Figure: p50(0), Unit: "ms", Beside: "bwrap alone", Other: p50(1)},
		{Name: "sandbox: overhead over a plain process, p50", Figure: p50(0) - p50(2), Unit: "ms", Beside: limit, Other: sandboxLimit, AtMost: 1},
	}, nil
}
