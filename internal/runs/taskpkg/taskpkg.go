// Package taskpkg runs one trial of a task_package case: it fetches the
// environment, puts the skill into it, runs the oracle and the verifier in the
// sandbox, and reads the reward. Tasks of Harbor and SkillsBench that need no
// image and no network run unchanged. It owns no tables.
package taskpkg

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/outbound"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/suites/taskfile"
)

// Version names the rules of this package. It is kept with each result, so
// that results of different rules are not compared.
const Version = "2"

// A Task is what a task_package case says.
type Task struct {
	// EnvironmentRef is an http or https URL, or what BlobKey understands. A
	// fragment "#sha256=<hex>" is the digest that the archive must have.
	EnvironmentRef string
	// BlobKey returns the key in the bucket of a reference that is not a URL
	// of the web, and false if the case's organisation has no such object.
	BlobKey func(ref string) (key string, ok bool)

	Instruction    string
	VerifierRef    string // "" means tests/test.sh
	SkillBundleRef string // "" means skill-under-test
	OracleRef      string // "" for none
	WorkingDir     string // "" for the archive's root
	Timeout        time.Duration
	Env            map[string]string
	// Threshold is the score from which a trial passes; 0 means 1.
	Threshold float64
}

func (t Task) withDefaults() Task {
	if t.VerifierRef == "" {
		t.VerifierRef = taskfile.DefaultVerifier
	}
	if t.SkillBundleRef == "" {
		t.SkillBundleRef = taskfile.DefaultSkillBundle
	}
	if t.WorkingDir == "" {
		t.WorkingDir = "."
	}
	if t.Threshold == 0 {
		t.Threshold = 1
	}
	return t
}

// A Verdict is what came of a trial.
type Verdict string

// The verdicts. Only the first two count in a pass rate.
const (
	Pass        Verdict = "pass"
	Fail        Verdict = "fail"
	Error       Verdict = "error"       // the verdict could not be obtained
	Unsupported Verdict = "unsupported" // the task needs something that is not here
)

// A Code says why a trial has no verdict, or failed without a reward, for programs.
type Code string

// The codes by step. Which are errors and which are fails depends on who caused
// them: see docs/evals.md.
const (
	FetchFailed        Code = "fetch_failed"
	FetchRefused       Code = "fetch_refused"
	DigestMismatch     Code = "digest_mismatch"
	ArchiveInvalid     Code = "archive_invalid"
	MountConflict      Code = "mount_conflict"
	PathRefused        Code = "path_refused"
	WorkdirMissing     Code = "workdir_missing"
	EnvRefused         Code = "env_refused"
	OracleFailed       Code = "oracle_failed"
	Timeout            Code = "timeout"
	VerifierMissing    Code = "verifier_missing"
	VerifierNotStarted Code = "verifier_not_started"
	RewardUnreadable   Code = "reward_unreadable"
	OutOfMemory        Code = "out_of_memory"
	OverLimit          Code = "over_limit" // of processor time, processes or disk
	Signalled          Code = "signal"
	SandboxUnavailable Code = "sandbox_unavailable"
	SandboxFailed      Code = "sandbox_failed"
	Cancelled          Code = "cancelled"
)

// The codes of what is unsupported.
const (
	NeedsGPU           Code = "gpu"
	NeedsNetwork       Code = "network"
	NeedsImages        Code = "image_build"
	NeedsSteps         Code = "multi_step"
	NeedsAbsolutePaths Code = "absolute_paths"
)

// An Outcome is all that is kept of a trial.
type Outcome struct {
	Verdict Verdict
	// Code and Message say why there is no pass or fail, or why the trial failed
	// before there was a reward; both are "" otherwise.
	Code    Code
	Message string

	// Score is between 0 and 1, Raw what the verifier said, and Metrics are
	// all numbers it gave. They mean something for a pass or fail only.
	Score, Raw float64
	Metrics    map[string]float64
	// Report is the verifier's ctrf.json, for display, or nil.
	Report []byte

	// ExitCode and the streams are those of the verifier, or of the oracle if
	// that failed. Secrets are masked.
	ExitCode       int
	Stdout, Stderr sandbox.Output
	// Duration and PeakMemory are those of the same program.
	Duration   time.Duration
	PeakMemory int64

	// Digest is the SHA-256 of the environment's archive, or "".
	Digest string
	// Limits are those that the programs had.
	Limits  sandbox.Limits
	Version string
}

// A Runner runs trials. Its methods may be called from many goroutines.
type Runner struct {
	Sandbox sandbox.Sandbox
	// HTTP fetches environments from the web.
	HTTP *outbound.Client
	// Blobs holds the environments that BlobKey has keys of.
	Blobs Bucket

	// Dir is where trials stand while they run; "" means the system's
	// temporary folder. If the service runs as root, other users must be able
	// to enter it.
	Dir string
	// Archive bounds environments. The zero value means ArchiveLimits(0).
	Archive skillpkg.Limits
	// Limits are those of the programs; Wall is the timeout of a task that
	// names none, and MaxTimeout the longest one that it can name.
	Limits     sandbox.Limits
	MaxTimeout time.Duration
	// FetchTimeout bounds one try to fetch; 0 means 2 minutes.
	FetchTimeout time.Duration
	// RetryPause is the wait before the first new try; 0 means a second.
	RetryPause time.Duration
	// Secrets are masked in outputs, beside what looks like one.
	Secrets []string
	// Log hears what went wrong on this machine. Nil means nobody does.
	Log *slog.Logger
}

// A Bucket opens blobs; blob.Bucket is one.
type Bucket interface {
	Get(ctx context.Context, key string) (io.ReadCloser, blob.Info, error)
}

// ArchiveLimits returns the limits of an environment of so many packed bytes;
// 0 means 100 MiB.
func ArchiveLimits(packed int64) skillpkg.Limits {
	if packed <= 0 {
		packed = 100 << 20
	}
	return skillpkg.Limits{
		Packed: packed, Unpacked: 5 * packed, File: 2 * packed, Files: 20_000,
		Depth: 20, PathLength: 512, Ratio: 200,
	}
}

const (
	defaultTimeout    = 120 * time.Second
	defaultMaxTimeout = 30 * time.Minute
)

// limits returns what the programs of a task get.
func (r *Runner) limits(t Task) sandbox.Limits {
	l := r.Limits
	if l.Wall <= 0 {
		l.Wall = defaultTimeout
	}
	if t.Timeout > 0 {
		l.Wall = t.Timeout
	}
	longest := r.MaxTimeout
	if longest <= 0 {
		longest = defaultMaxTimeout
	}
	l.Wall = min(l.Wall, longest)
	if l.Disk <= 0 {
		l.Disk = r.archive().Unpacked + 1<<30
	}
	return l.WithDefaults()
}

func (r *Runner) archive() skillpkg.Limits {
	if r.Archive == (skillpkg.Limits{}) {
		return ArchiveLimits(0)
	}
	return r.Archive
}

// A failure is why a trial ends without a reward.
type failure struct {
	verdict Verdict
	code    Code
	message string
}

func (f *failure) Error() string { return string(f.code) + ": " + f.message }
