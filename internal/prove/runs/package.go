package runs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// runPackage runs a task package in the sandbox and translates its outcome. What this
// installation cannot run becomes a problem "unsupported_…", which doesn't count as a
// fail.
func (x *execution) runPackage(ctx context.Context, c suites.Case, t *Trial) error {
	p := c.Package
	got := x.s.Packages.Run(ctx, taskpkg.Task{
		EnvironmentRef: p.EnvironmentRef,
		BlobKey:        func(ref string) (string, bool) { return x.s.Suites.EnvironmentKey(x.run.OrgID, ref) },
		Instruction:    p.Instruction, VerifierRef: p.VerifierRef, SkillBundleRef: p.SkillBundleRef, OracleRef: p.OracleRef,
		WorkingDir: p.WorkingDir, Timeout: time.Duration(p.TimeoutMS) * time.Millisecond, Env: p.Env,
		Resources: p.Resources, Most: x.resources, NeedsImage: p.NeedsImage, Agent: x.packageAgent(c, t),
	}, x.skills[t.Arm].content)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	output := string(got.Stdout.Tail)
	if stderr := string(got.Stderr.Tail); stderr != "" {
		output += "\n[stderr]\n" + stderr // last, since the tail is stored
	}
	t.OutputTail = x.tail(output)
	t.Evidence.ExitCode, t.Evidence.Package = &got.ExitCode, got.Evidence()
	switch got.Verdict {
	case taskpkg.Pass, taskpkg.Fail:
		// A verdict with a code has no reward: a program failed, e.g. by a timeout.
		if got.Code != "" {
			return attempt.NewDefect(string(got.Code), got.Message)
		}
		t.decide(got.Verdict == taskpkg.Pass, got.Score,
			"the verifier gives %.4g and ends with status %d", got.Score, got.ExitCode)
		return nil
	case taskpkg.Unsupported:
		return &Problem{Code: "unsupported_" + string(got.Code), Message: got.Message}
	case taskpkg.Error:
	}
	return &Problem{Code: string(got.Code), Message: got.Message}
}
