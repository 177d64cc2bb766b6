// Package sandbox runs untrusted programs: the commands and verifiers of eval
// cases. A program has no network, sees only the system's programs and its
// mounts, cannot exceed its limits (timeout, CPU time, memory, processes, disk),
// and has no process left when its run is over.
//
// The default driver, bubblewrap, uses Linux namespaces (user, PID, network,
// mount, IPC, UTS, cgroup), a seccomp filter, rlimits, and a cgroup v1 or v2
// where the service may create one. What the kernel does not enforce, a monitor
// does. The package owns no tables.
package sandbox

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/spawn"
)

// A Sandbox runs untrusted programs. It is safe for concurrent use.
type Sandbox interface {
	// Run runs a program until it ends and returns its result. Whatever the
	// program does is a result and never an error. An error means that nothing
	// is known about the program: it is Unavailable, with what to do about it,
	// if this machine has no working sandbox, or no memory or disk left,
	// Malformed if the spec is invalid, and the context's own if that ended.
	// When Run returns, also with an error, no process of the program is left.
	Run(ctx context.Context, spec Spec) (Result, error)

	// Binds reports whether a Mount may have another Target than its Source.
	Binds() bool

	// Check probes the sandbox and reports which protections are in force on
	// this machine and which are missing. Its errors are those of Run.
	Check(ctx context.Context) (Report, error)
}

// A Driver is a kind of sandbox.
type Driver string

// The drivers.
const (
	Bubblewrap Driver = "bubblewrap" // Linux namespaces through the program bwrap
	Docker     Driver = "docker"     // a container through the program docker
	None       Driver = "none"       // no protection but limits
)

// Options configure a sandbox. The zero value is bubblewrap.
type Options struct {
	Driver Driver

	// AllowNone allows the driver None, which New refuses otherwise.
	AllowNone bool

	// Program is the path of bwrap or docker, if not the one in PATH. Tests
	// set it to a script.
	Program string

	// Image is the image of containers; the driver docker needs it.
	Image string

	// Log gets one line about what enforces the memory limit. It may be nil.
	Log *slog.Logger
}

// New returns a sandbox. It does not probe it: a missing bwrap or docker is an
// error of Run and Check. Its own error is Malformed.
func New(o Options) (Sandbox, error) {
	switch o.Driver {
	case Bubblewrap, "":
		return newBubblewrap(o), nil
	case Docker:
		if o.Image == "" {
			return nil, fault.Invalid("sandbox-image", "the sandbox docker needs an image; set --sandbox-image")
		}
		return &docker{program: o.Program, image: o.Image}, nil
	case None:
		if !o.AllowNone {
			return nil, fault.Invalid("sandbox",
				"without a sandbox, eval cases run with all rights of the service; set --sandbox-allow-none if that is what you want")
		}
		return none{}, nil
	}
	return nil, fault.Invalid("sandbox", "sandbox must be bubblewrap, docker or none, not %q", o.Driver)
}

// A Spec describes a program to run.
type Spec struct {
	// Argv is the program and its arguments. A program that cannot be found
	// or executed ends with status 127 or 126, as in a shell.
	Argv []string
	// Env is the environment, in addition to the defaults of Environment.
	Env map[string]string
	// Dir is the working folder inside; empty means the home folder.
	Dir   string
	Stdin []byte
	// Root, if not nil, has the system's programs in place of the machine's.
	Root *Root
	// Mounts are folders of the machine that the program can see.
	Mounts []Mount
	Limits Limits
	// Stop, if not nil, ends the program when it is closed, as its timeout does.
	Stop <-chan struct{}
}

// A Mount is a bind mount of a folder of the machine. No element of the source
// may be a symbolic link: a program that ran before could have put it there. If
// the service runs as root, a writable folder and its content are chowned to the
// program's unprivileged user, who must be able to reach it.
type Mount struct {
	Source, Target string
	Writable       bool
}

// Limits are the time limit, memory limit and other limits of a trial: of a
// program together with all processes it starts. A zero field means the default.
type Limits struct {
	Wall      time.Duration // wall clock timeout; then SIGTERM. Default 2 minutes
	Grace     time.Duration // from SIGTERM to SIGKILL. Default 5 seconds
	CPU       time.Duration // CPU time of all processes. Default twice Wall, or CPUs times Wall
	CPUs      float64       // processors that it may use at a time, e.g. 0.5. Default all
	Memory    int64         // bytes, including what the kernel holds for it. Default 2 GiB
	Processes int           // concurrent, including threads. Default 256
	FileSize  int64         // bytes of one file. Default 256 MiB
	Disk      int64         // bytes in writable mounts. Default 1 GiB
	Files     int           // in writable mounts, and in each scratch folder. Default 100,000
	Output    int           // last bytes kept of stdout and stderr each. Default 64 KiB
}

// WithDefaults replaces zero fields with the defaults.
func (l Limits) WithDefaults() Limits {
	setDefault(&l.Wall, 2*time.Minute)
	setDefault(&l.Grace, 5*time.Second)
	if l.CPUs > 0 {
		setDefault(&l.CPU, time.Duration(l.CPUs*float64(l.Wall)))
	}
	setDefault(&l.CPU, 2*l.Wall)
	setDefault(&l.Memory, 2<<30)
	setDefault(&l.Processes, 256)
	setDefault(&l.FileSize, 256<<20)
	setDefault(&l.Disk, 1<<30)
	setDefault(&l.Files, 100_000)
	setDefault(&l.Output, 64<<10)
	return l
}

// scratch is the size limit of a scratch folder. It is a tmpfs, so it gets at
// most a quarter of the memory limit.
func (l Limits) scratch() int64 { return min(l.Disk, l.Memory/4) }

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// A Limit is the limit that a program was killed for.
type Limit string

// The limits that a program is killed for. The others make its system calls
// fail.
const (
	WallLimit      Limit = "wall_clock"
	CPULimit       Limit = "cpu"
	MemoryLimit    Limit = "memory"
	ProcessesLimit Limit = "processes"
	DiskLimit      Limit = "disk"

	// Stopped is not a limit: Spec.Stop was closed.
	Stopped Limit = "stopped"
)

// A Result is the result of a program.
type Result struct {
	// ExitCode is the program's exit status, 128+n if signal n killed it.
	ExitCode int
	// Exceeded is the limit that it was killed for, or "" if it ended by itself.
	Exceeded       Limit
	Stdout, Stderr Output
	Duration       time.Duration
	// PeakMemory is the most memory in use, in bytes: that of the cgroup, or where
	// there is none what the monitor saw, 0 if the program ended before its first check.
	PeakMemory int64
}

// Signal returns the signal that killed the program, or a child whose status it
// returned as shells do, or 0.
func (r Result) Signal() int {
	if r.ExitCode > 128 && r.ExitCode <= 128+64 {
		return r.ExitCode - 128
	}
	return 0
}

// Finds reports whether the sandbox has a program, by its name or path, outside
// of mounts. If not, exit status 126 or 127 may be the fault of the machine and
// not of the eval case.
func Finds(ctx context.Context, s Sandbox, program string) (bool, error) {
	result, err := s.Run(ctx, Spec{Argv: []string{"sh", "-c", `command -v "$0" >/dev/null`, program}})
	return result.ExitCode == 0, err
}

// A Report lists the protections of a sandbox on this machine.
type Report struct {
	Driver  Driver
	Version string
	// InForce and Missing are messages for the operator.
	InForce, Missing []string
}

// maxString is the longest argument or variable in Linux (MAX_ARG_STRLEN).
const maxString = 128<<10 - 1

// maxStrings keeps their sum below a quarter of the stack, as execve(2) demands.
const maxStrings = 1 << 20

// reservedDirs are mounted by the sandbox itself.
var reservedDirs = []string{"/proc", "/dev", "/sys"}

// check returns a Malformed error if the spec is invalid.
func (s Spec) check(binds bool) error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return fault.Invalid("argv", "there is no program to run")
	}
	if s.Dir != "" && !path.IsAbs(s.Dir) {
		return fault.Invalid("dir", "the working folder %q is not an absolute path", s.Dir)
	}
	if err := s.checkStrings(); err != nil {
		return err
	}
	if s.Root != nil && !binds {
		return errNoRoot()
	}
	for i, m := range s.Mounts {
		if err := m.check(binds); err != nil {
			return err
		}
		// Also the same target twice.
		for j, other := range s.Mounts {
			// The mount point would be created inside a folder that an earlier
			// program may have changed.
			if i != j && within(m.Target, other.Target) {
				return fault.Invalid("mounts", "%s and %s cannot both be mounted", other.Target, m.Target)
			}
		}
	}
	return nil
}

func (s Spec) checkStrings() error {
	all := slices.Clone(s.Argv)
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fault.Invalid("env", "%q is not the name of a variable", name)
		}
		all = append(all, name+"="+value)
	}
	total := 0
	for _, text := range all {
		total += len(text)
		if strings.ContainsRune(text, 0) {
			return fault.Invalid("argv", "an argument or a variable holds a NUL character")
		}
		if len(text) > maxString || total > maxStrings {
			return fault.Invalid("argv", "an argument or a variable is longer than a program can get")
		}
	}
	return nil
}

func (m Mount) check(binds bool) error {
	if !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || m.Target == "/" {
		return fault.Invalid("mounts", "nothing can be mounted at %q", m.Target)
	}
	for _, dir := range reservedDirs {
		if within(m.Target, dir) {
			return fault.Invalid("mounts", "nothing can be mounted at %q", m.Target)
		}
	}
	if !binds && m.Source != m.Target {
		return fault.New(fault.Unsupported, "this sandbox cannot show a folder under another path")
	}
	resolved, err := filepath.EvalSymlinks(m.Source)
	if err != nil {
		return fault.Invalid("mounts", "the folder for %s cannot be found", m.Target).Because(err)
	}
	if resolved != m.Source {
		return fault.Invalid("mounts", "the folder for %s is reached through a symbolic link", m.Target)
	}
	return nil
}

// systemDirs have the machine's own programs and devices.
var systemDirs = []string{
	"/bin", "/boot", "/dev", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr",
}

// sharedDirs have files of the sandbox and may have mounts below them.
var sharedDirs = []string{"/etc", "/home", "/run", "/tmp", "/var"}

// CanMount reports whether a path can be the target of a mount that does not hide
// what programs need. Below "/etc" and the other sharedDirs it may be an entry
// whose name the sandbox does not use itself.
func CanMount(target string) bool {
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" || slices.Contains(sharedDirs, target) {
		return false
	}
	inSystem := func(dir string) bool { return within(target, dir) }
	if slices.ContainsFunc(systemDirs, inSystem) || within(target, "/var/run") || within(target, "/var/tmp") {
		return false
	}
	for _, name := range etcPaths {
		if own := "/etc/" + name; within(target, own) || within(own, target) {
			return false
		}
	}
	return !slices.ContainsFunc(etcFiles, func(f etcFile) bool { return within(f.path, target) })
}

// within reports whether p is dir or lies below it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// Paths inside a sandbox that binds.
const (
	home      = "/home/sandbox"
	temporary = "/tmp"
)

// Environment returns the default environment of every program, the same on
// every machine. Spec.Env overrides it.
func Environment() map[string]string {
	return map[string]string{"PATH": spawn.Path, "LANG": "C.UTF-8", "HOME": home, "TMPDIR": temporary}
}

// environment returns the whole environment of a program, sorted.
func (s Spec) environment(defaults map[string]string) []string {
	all := make([]string, 0, len(defaults)+len(s.Env))
	for name, value := range s.Env {
		all = append(all, name+"="+value)
	}
	for name, value := range defaults {
		if _, set := s.Env[name]; !set {
			all = append(all, name+"="+value)
		}
	}
	slices.Sort(all)
	return all
}

// limitScript is a shell script that sets rlimits on itself (core size, open
// files, file size, data size, CPU time, processes) and executes the program in
// its arguments. A shell has two advantages: it sets the limits inside the user
// namespace, where the kernel counts the processes of this sandbox only, and it
// ends with status 126 or 127 if the program cannot be executed.
//
// The limit on processes is -p in dash and BusyBox, and -u in bash. A limit that
// cannot be set is lower already.
//
// The limit on data size, which is per process, is well above the memory limit
// of the whole program: many programs reserve more than they use, and one that
// uses too much must be killed with Exceeded set. A failing malloc would look
// like a failure of the program's own.
func limitScript(l Limits, openFiles int, countProcesses bool) string {
	const block = 512 // the unit of -f in a shell that is called sh
	script := fmt.Sprintf("{ ulimit -c 0; ulimit -n %d; ulimit -f %d; ulimit -d %d; ulimit -t %d; ",
		openFiles, max(1, l.FileSize/block), (2*l.Memory+256<<20)>>10, int(max(1, (l.CPU+time.Second-1)/time.Second)))
	if countProcesses {
		script += fmt.Sprintf("ulimit -u %[1]d || ulimit -p %[1]d; ", l.Processes)
	}
	return script + `} 2>/dev/null; exec "$0" "$@"`
}

const shell = "/bin/sh"

// launch returns the arguments that execute argv by a script.
func launch(script string, argv []string) []string {
	return append([]string{shell, "-c", script}, argv...)
}
