package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/suites"
)

// PackageEvidence is what a task package's verifier left.
type PackageEvidence struct {
	// Raw is the reward as the verifier gave it, Metrics are all its numbers.
	Raw        float64            `json:"raw"`
	Metrics    map[string]float64 `json:"metrics,omitempty"`
	Report     json.RawMessage    `json:"report,omitempty"` // its ctrf.json
	PeakMemory int64              `json:"peak_memory_bytes,omitempty"`
	// Digest is the SHA-256 of the environment.
	Digest    string `json:"environment_sha256,omitempty"`
	TimeoutMS int64  `json:"timeout_ms"`
	// Runner names the rules by which the package was run.
	Runner string `json:"runner"`
}

// runPackage runs a task package in the sandbox.
func (x *execution) runPackage(ctx context.Context, c suites.Case, t *Trial) error {
	p := c.Package
	got := x.s.Packages.Run(ctx, taskpkg.Task{
		EnvironmentRef: p.EnvironmentRef,
		BlobKey:        func(ref string) (string, bool) { return x.s.Suites.EnvironmentKey(x.run.OrgID, ref) },
		Instruction:    p.Instruction, VerifierRef: p.VerifierRef, SkillBundleRef: p.SkillBundleRef, OracleRef: p.OracleRef,
		WorkingDir: p.WorkingDir, Timeout: time.Duration(p.TimeoutMS) * time.Millisecond, Env: p.Env,
	}, x.skills[t.Arm].content)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.OutputTail = tail(joined(string(got.Stdout.Tail), string(got.Stderr.Tail)), x.tailLimit)
	t.Evidence.ExitCode, t.Evidence.Package = &got.ExitCode, newPackageEvidence(got)
	switch got.Verdict {
	case taskpkg.Pass, taskpkg.Fail:
		if got.Code != "" {
			return &defect{string(got.Code), got.Message}
		}
		t.decide(got.Verdict == taskpkg.Pass, got.Score, "the verifier gives %.4g and ends with status %d", got.Score, got.ExitCode)
		return nil
	case taskpkg.Unsupported:
		return &Problem{"unsupported_" + string(got.Code), got.Message}
	case taskpkg.Error:
	}
	return &Problem{string(got.Code), got.Message}
}

// joined is what a verifier wrote, its complaints last: the end is kept.
func joined(stdout, stderr string) string {
	if stderr == "" {
		return stdout
	}
	return fmt.Sprintf("%s\n[stderr]\n%s", stdout, stderr)
}

// maxReport is how much of a verifier's report is kept with a trial.
const maxReport = 64 << 10

func newPackageEvidence(o taskpkg.Outcome) *PackageEvidence {
	e := &PackageEvidence{
		Raw: o.Raw, Metrics: o.Metrics, PeakMemory: o.PeakMemory, Digest: o.Digest,
		TimeoutMS: o.Limits.Wall.Milliseconds(), Runner: o.Version,
	}
	if len(o.Report) <= maxReport && json.Valid(o.Report) {
		e.Report = o.Report
	}
	return e
}
