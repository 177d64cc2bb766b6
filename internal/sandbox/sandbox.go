// Package sandbox is the only way to run foreign code: the commands and
// verifiers of eval cases. Whatever such a program does, it reaches no network,
// sees no file but the system's programs and what it was given, takes no more
// of the machine than its limits, and is gone when its run is over. It owns no
// tables.
package sandbox

import (
	"context"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Sandbox runs one foreign program at a time, or many at once. Its methods
// may be called from many goroutines.
type Sandbox interface {
	// Run runs a program to its end and returns what came of it. An error
	// means that nothing can be said about the program: it is Unavailable,
	// with what to do about it, when this machine has no working sandbox, or no
	// memory or disk left, Malformed when the spec makes no sense, and the
	// context's own when that ended. What the program itself brings about is
	// never an error. However it ends, and also after an error, none of its
	// processes is left when Run returns.
	Run(ctx context.Context, spec Spec) (Result, error)

	// Binds reports whether a Mount may have another Target than its Source.
	Binds() bool

	// Check tries the sandbox out and reports what protects this machine and
	// what does not. Its error is that of Run.
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

// Options say which sandbox to use. The zero value is bubblewrap.
type Options struct {
	Driver Driver

	// AllowNone lets foreign programs run with the rights of the service,
	// which New refuses otherwise.
	AllowNone bool

	// Program is the path of bwrap or docker, if not the one in PATH.
	Program string

	// Image is what containers are made of; the driver docker needs it.
	Image string

	// ReadOnly are folders of tools beside the system's own that programs may
	// read, under the same paths.
	ReadOnly []string

	// Log hears once what keeps the limit on memory. Nil means nobody does.
	Log *slog.Logger
}

// New returns a sandbox. It does not try it out: that the machine lacks bwrap
// or docker is the error of Run and Check. Its own error is Malformed.
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
			return nil, fault.Invalid("sandbox", "without a sandbox, eval cases run with all rights of the service; set --sandbox-allow-none if that is what you want")
		}
		return none{}, nil
	}
	return nil, fault.Invalid("sandbox", "sandbox must be bubblewrap, docker or none, not %q", o.Driver)
}

// A Spec is one program to run.
type Spec struct {
	// Argv is the program and its arguments. A program that cannot be found
	// or executed ends with status 127 or 126, as in a shell.
	Argv []string
	// Env is the whole environment, beside the defaults of Environment.
	Env map[string]string
	// Dir is the working folder inside; empty means the home folder.
	Dir   string
	Stdin []byte
	// Mounts are the folders that the program gets beside the system's.
	Mounts []Mount
	Limits Limits
}

// A Mount shows a folder of this machine to a program. No element of the
// source may be a symbolic link: a program that ran before could have put it
// there. Where the service runs as root, the content of a writable folder is
// given to the sandbox's unprivileged user, who must be able to reach it.
type Mount struct {
	Source, Target string
	Writable       bool
}

// Limits bound a program together with all processes it starts. A zero field
// means the default.
type Limits struct {
	Wall      time.Duration // from start to end; then SIGTERM. Default 2 minutes
	Grace     time.Duration // from SIGTERM to SIGKILL. Default 5 seconds
	CPU       time.Duration // of all processes. Default twice Wall
	Memory    int64         // bytes, those included that the kernel holds for it. Default 2 GiB
	Processes int           // at once, threads included. Default 256
	FileSize  int64         // bytes of one file. Default 256 MiB
	Disk      int64         // bytes in writable mounts. Default 1 GiB
	Files     int           // in writable mounts, and in each scratch folder. Default 100,000
	Output    int           // last bytes kept of stdout and stderr each. Default 64 KiB
}

// WithDefaults returns the limits that a program with these limits has.
func (l Limits) WithDefaults() Limits {
	setDefault(&l.Wall, 2*time.Minute)
	setDefault(&l.Grace, 5*time.Second)
	setDefault(&l.CPU, 2*l.Wall)
	setDefault(&l.Memory, 2<<30)
	setDefault(&l.Processes, 256)
	setDefault(&l.FileSize, 256<<20)
	setDefault(&l.Disk, 1<<30)
	setDefault(&l.Files, 100_000)
	setDefault(&l.Output, 64<<10)
	return l
}

// scratch is how large a scratch folder may be. It is memory, so no more than a
// quarter of what the processes may have.
func (l Limits) scratch() int64 { return min(l.Disk, l.Memory/4) }

func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// A Limit names the limit that a program was ended for.
type Limit string

// The limits whose passing ends a program. The others make its calls fail.
const (
	WallLimit      Limit = "wall_clock"
	CPULimit       Limit = "cpu"
	MemoryLimit    Limit = "memory"
	ProcessesLimit Limit = "processes"
	DiskLimit      Limit = "disk"
)

// A Result is what came of a program.
type Result struct {
	// ExitCode is the program's status, 128+n if signal n ended it.
	ExitCode int
	// Exceeded is the limit that it was ended for, or "" if it ended by itself.
	Exceeded       Limit
	Stdout, Stderr Output
	Duration       time.Duration
	// PeakMemory is the most memory that was seen in use, in bytes, or 0 if
	// the program was too quick to look.
	PeakMemory int64
}

// Signal returns the signal that ended the program, or one of its own
// processes whose status it passed on as shells do, or 0.
func (r Result) Signal() int {
	if r.ExitCode > 128 && r.ExitCode <= 128+64 {
		return r.ExitCode - 128
	}
	return 0
}

// Finds reports whether programs of a sandbox can start a program that is not in
// their mounts, by its name or path: whether a status of 126 or 127 may be this
// machine's doing.
func Finds(ctx context.Context, s Sandbox, program string) (bool, error) {
	result, err := s.Run(ctx, Spec{Argv: []string{"sh", "-c", `command -v "$0" >/dev/null`, program}})
	return result.ExitCode == 0, err
}

// A Report says what a sandbox protects from on this machine.
type Report struct {
	Driver  Driver
	Version string
	// InForce and Missing are sentences for the operator.
	InForce, Missing []string
}

// maxString is the longest argument or variable that Linux passes on.
const maxString = 128<<10 - 1

// maxStrings keeps all of them below the quarter of the stack that they may take.
const maxStrings = 1 << 20

// hidden are the folders that the sandbox fills itself.
var hidden = []string{"/proc", "/dev", "/sys"}

// check returns a Malformed error if the spec makes no sense.
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
	for i, m := range s.Mounts {
		if err := m.check(binds); err != nil {
			return err
		}
		for j, other := range s.Mounts {
			// The mount point would be made inside a folder that a program
			// has had its hands on.
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
	for _, dir := range hidden {
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

// within reports whether p is dir or lies below it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// Where a program finds itself in a sandbox that binds.
const (
	home      = "/home/sandbox"
	temporary = "/tmp"
	pathValue = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Environment returns what every program has in its environment unless its
// Spec says otherwise: the same few variables on every machine.
func Environment() map[string]string {
	return map[string]string{"PATH": pathValue, "LANG": "C.UTF-8", "HOME": home, "TMPDIR": temporary}
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
