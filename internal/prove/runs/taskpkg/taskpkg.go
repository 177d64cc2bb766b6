// Package taskpkg runs one trial of a task_package case: it fetches the
// environment, unpacks the skill into it, runs the oracle and the verifier in
// the sandbox, and reads the reward. Tasks of Harbor and SkillsBench that do not need
// the network run unchanged. It owns no tables.
package taskpkg

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Version is the version of this package's rules. It is stored with each result, so
// that results by different rules aren't compared.
const Version = "6"

// A Task is a task_package case.
type Task struct {
	// EnvironmentRef is an http or https URL, or a reference that BlobKey
	// resolves. A fragment "#sha256=<hex>" is the digest that the archive must have.
	EnvironmentRef string
	// BlobKey returns the blob key of a reference that is not a URL of the web,
	// and false if the case's organisation has no such blob.
	BlobKey func(ref string) (key string, ok bool)

	Instruction    string
	VerifierRef    string // "" means tests/test.sh
	SkillBundleRef string // "" means skill-under-test
	OracleRef      string // "" for none
	WorkingDir     string // "" for the archive's root
	Timeout        time.Duration
	Env            map[string]string
	// Agent, if not nil, works on the task in place of the oracle. If it returns an
	// error the trial ends; an error made by Stop gives the reason.
	Agent func(ctx context.Context, w Workplace) error
	// NeedsImage means that the task can't run on the service's own machine.
	NeedsImage bool
	// Resources are what the case asks for; they come before those of task.toml. Most
	// is the most that it gets.
	Resources, Most taskfile.Resources
}

// passScore is the score that a trial needs to pass.
const passScore = 1

func (t Task) withDefaults() Task {
	t.VerifierRef = cmp.Or(t.VerifierRef, taskfile.DefaultVerifier)
	t.SkillBundleRef = cmp.Or(t.SkillBundleRef, taskfile.DefaultSkillBundle)
	t.WorkingDir = cmp.Or(t.WorkingDir, ".")
	return t
}

// A Verdict is the result of a trial.
type Verdict string

// The verdicts. Only the first two count in a pass rate.
const (
	Pass        Verdict = "pass"
	Fail        Verdict = "fail"
	Error       Verdict = "error"       // the verdict could not be obtained
	Unsupported Verdict = "unsupported" // the task needs something that this runner lacks
)

// A Code says, for programs, why a trial has no verdict or failed without a reward.
type Code string

// The codes by step. Which are errors and which are fails depends on the cause:
// see docs/evals.md.
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
	EnvironmentFailed  Code = "environment_failed"
	SetupFailed        Code = "setup_failed" // of a step
	Cancelled          Code = "cancelled"
)

// The codes of unsupported tasks.
const (
	NeedsGPU           Code = "gpu"
	NeedsNetwork       Code = "network"
	NeedsImages        Code = "image_build"
	NeedsAbsolutePaths Code = "absolute_paths"
	NeedsResources     Code = "resources" // it exceeded a limit that is below what it asks for
)

// An Outcome is the result of a trial.
type Outcome struct {
	Verdict Verdict
	// Code and Message say why there is no verdict, or why the trial failed
	// without a reward; both are "" otherwise.
	Code    Code
	Message string

	// Score is Raw clamped to 0..1, Raw the verifier's reward, and Metrics are all
	// numbers that it reported. They are valid for a pass or fail only.
	Score, Raw float64
	Metrics    map[string]float64
	// Report is the verifier's ctrf.json, for display, or nil.
	Report []byte

	// ExitCode and the streams are those of the verifier, or of the oracle if
	// that failed. Secrets are redacted.
	ExitCode       int
	Stdout, Stderr sandbox.Output
	// Duration and PeakMemory are those of the same program.
	Duration   time.Duration
	PeakMemory int64

	// Digest is the SHA-256 of the environment's archive, and Image identifies the
	// image in which the programs ran; both may be "".
	Digest, Image string
	// Limits are those of the programs.
	Limits  sandbox.Limits
	Version string
}

// A Runner runs trials. Its methods may be called from many goroutines.
type Runner struct {
	Sandbox sandbox.Sandbox
	// HTTP fetches environments from the web.
	HTTP *outbound.Client
	// Blobs has the environments that BlobKey resolves.
	Blobs Bucket
	// Environments builds the images of tasks. If it is nil, tasks run on the
	// service's own machine.
	Environments *environments.Service
	// HasTools says that the sandbox has what scripts install from the network:
	// those that try are run all the same.
	HasTools bool

	// Dir is the parent of the trials' folders; "" means the system's temporary
	// folder. If the service runs as root, other users must be able to enter it.
	Dir string
	// Log gets internal errors; nil discards them.
	Log *slog.Logger

	running   sync.Map // the folders of trials that Sweep must spare
	overrides overrides
}

// overrides are limits that tests lower; zero fields mean the defaults.
type overrides struct {
	Archive               skillpkg.Limits
	Programs              sandbox.Limits
	Machine               taskfile.Resources
	MaxTimeout            time.Duration
	FetchTimeout, Backoff time.Duration
}

// A Bucket opens blobs; blob.Bucket is one.
type Bucket interface {
	Get(ctx context.Context, key string) (io.ReadCloser, blob.Info, error)
}

// newArchiveLimits returns the limits for unpacking an environment of so many packed
// bytes. They stop archives that unpack to far more than they should (zip bombs).
func newArchiveLimits(packed int64) skillpkg.Limits {
	return skillpkg.Limits{
		Packed: packed, Unpacked: 5 * packed, File: 2 * packed, Files: 20_000,
		Depth: 20, PathLength: 512, Ratio: 200,
	}
}

const (
	maxArchive        = 100 << 20 // packed bytes of an environment
	maxStorage        = 20 << 30  // bytes that a case may ask for
	maxProcesses      = 4096      // the same
	defaultTimeout    = 120 * time.Second
	defaultMaxTimeout = 30 * time.Minute
)

// limits returns the time limit, memory limit and so on of a trial's programs,
// and which of them are below what the task asks for. The sandbox enforces them.
func (r *Runner) limits(t Task) (l sandbox.Limits, short []sandbox.Limit) {
	l = r.overrides.Programs
	asked := t.Resources
	asked.Timeout = cmp.Or(t.Timeout, l.Wall, defaultTimeout)
	got := asked.Within(t.Most).AtMost(cmp.Or(r.overrides.Machine, Machine()))
	l.Wall, l.CPUs = r.capTimeout(got.Timeout), cmp.Or(got.CPUs, l.CPUs)
	l.Memory, l.Processes = cmp.Or(got.Memory, l.Memory), cmp.Or(got.Processes, l.Processes)
	l.Disk = cmp.Or(got.Storage, l.Disk, r.archiveLimits().Unpacked+1<<30)
	if got.Memory < asked.Memory {
		short = append(short, sandbox.MemoryLimit)
	}
	if got.Storage < asked.Storage {
		short = append(short, sandbox.DiskLimit)
	}
	return l.WithDefaults(), short
}

func (r *Runner) capTimeout(d time.Duration) time.Duration {
	return min(d, cmp.Or(r.overrides.MaxTimeout, defaultMaxTimeout))
}

// Machine returns the most that this machine gives one program, whatever its case asks
// for.
func Machine() taskfile.Resources {
	return taskfile.Resources{
		CPUs: float64(runtime.NumCPU()), Memory: sandbox.MachineMemory() / 4 * 3, Storage: maxStorage,
		Processes: maxProcesses, Timeout: defaultMaxTimeout,
	}
}

func (r *Runner) archiveLimits() skillpkg.Limits {
	return cmp.Or(r.overrides.Archive, newArchiveLimits(maxArchive))
}

// A failure ends a trial without a reward. Its code and message are shown.
type failure struct {
	verdict Verdict
	code    Code
	message string
}

func (f *failure) Error() string { return string(f.code) + ": " + f.message }
