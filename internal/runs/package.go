package runs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/suites"
)

// PackageEvidence is what the verifier of a task package reported.
type PackageEvidence struct {
	// Raw is the reward before it is clamped to 0..1, and Metrics are all numbers
	// that the verifier reported.
	Raw        float64            `json:"raw"`
	Metrics    map[string]float64 `json:"metrics,omitempty"`
	Report     json.RawMessage    `json:"report,omitempty"` // its ctrf.json
	PeakMemory int64              `json:"peak_memory_bytes,omitempty"`
	// Digest is the SHA-256 of the environment.
	Digest string `json:"environment_sha256,omitempty"`
	// Image identifies the image in which the programs ran; "" for the service's own
	// machine.
	Image     string `json:"image_sha256,omitempty"`
	TimeoutMS int64  `json:"timeout_ms"`
	// Runner is the version of the rules by which the package was run.
	Runner string `json:"runner"`
}

// maxReport bounds the verifier's report that is stored with a trial. A larger
// one is dropped: half a JSON document is of no use.
const maxReport = 64 << 10

// runPackage runs a task package in the sandbox.
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
	t.OutputTail = tail(output, x.tailLimit)
	t.Evidence.ExitCode, t.Evidence.Package = &got.ExitCode, &PackageEvidence{
		Raw: got.Raw, Metrics: got.Metrics, PeakMemory: got.PeakMemory, Digest: got.Digest, Image: got.Image,
		TimeoutMS: got.Limits.Wall.Milliseconds(), Runner: got.Version,
	}
	if len(got.Report) <= maxReport && json.Valid(got.Report) {
		t.Evidence.Package.Report = got.Report
	}
	switch got.Verdict {
	case taskpkg.Pass, taskpkg.Fail:
		if got.Code != "" {
			return &defect{string(got.Code), got.Message}
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
