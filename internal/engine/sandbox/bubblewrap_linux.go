package sandbox

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// bubblewrap runs programs in Linux namespaces, which bwrap creates without
// privilege.
type bubblewrap struct {
	program  string // path of bwrap; "" means the one in PATH
	userPool userPool
	cgroups  *cgroups
	running  atomic.Int32 // number of programs
}

// newBubblewrap begins the user IDs at a random one: two services on a machine shouldn't count each
// other's processes.
func newBubblewrap(o Options) *bubblewrap {
	b := &bubblewrap{program: o.Program, cgroups: detectCgroups("/proc", writeFile)}
	b.userPool.next.Store(rand.Uint32())
	// Programs must not inherit file descriptors that this process was started
	// with, beyond its three streams. Files that Go opens are close-on-exec anyway.
	entries, _ := os.ReadDir("/proc/self/fd") // without /proc, bwrap does not run, either
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	if o.Log != nil {
		o.Log.Info("sandbox", "memory_limit_kept_by", b.cgroups.String())
	}
	return b
}

func (b *bubblewrap) Binds() bool { return true }

func (b *bubblewrap) Run(ctx context.Context, spec Spec) (_ Result, err error) {
	defer fault.Wrap(&err, "sandbox")
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if err := spec.check(true); err != nil {
		return Result{}, err
	}
	program, err := b.find()
	if err != nil {
		return Result{}, err
	}
	// After check, so that a 0 is never invalid.
	spec.Limits = spec.Limits.WithDefaults()
	user := b.userPool.pick()
	if spec.Root != nil {
		if user != nil {
			// The files of an image belong to RootUser. A user of its own for each run would mean a
			// chown of all of them.
			user = &syscall.Credential{Uid: uint32(RootUser()), Gid: uint32(RootUser())}
		}
		if err := spec.Root.prepare(spec.Mounts); err != nil {
			return Result{}, err
		}
	}
	if user != nil {
		if err := chownMounts(spec.Mounts, int(user.Uid)); err != nil {
			return Result{}, err
		}
	}
	// bwrap is killed when its parent dies (PR_SET_PDEATHSIG), and its parent is
	// the thread that starts it. That thread must not end before the program.
	// The deferred unlock runs after wait, so the thread outlives bwrap.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.running.Add(1)
	defer b.running.Add(-1)
	p, err := b.start(program, spec, user)
	if err != nil {
		return Result{}, err
	}
	return p.wait(ctx)
}

// Confine puts a process that this package didn't start, e.g. that of an image build, into a cgroup
// with limits. Without cgroups it does nothing. end kills all processes in it and is never nil.
func Confine(s Sandbox, pid int, l Limits) (end func(), err error) {
	if b, ok := s.(*bubblewrap); ok && b.cgroups.version > 0 {
		c, err := b.cgroups.create(l)
		if err != nil {
			return func() {}, err
		}
		return c.remove, c.add(pid)
	}
	return func() {}, nil
}

// find returns the path of bwrap.
func (b *bubblewrap) find() (string, error) {
	path, err := exec.LookPath(cmp.Or(b.program, "bwrap"))
	if err != nil {
		return "", fault.New(fault.Unavailable,
			"there is no sandbox on this machine; install bubblewrap: apt-get install bubblewrap").Because(err)
	}
	return path, nil
}

// userPool gives each run an unprivileged user ID of its own if the service runs
// as root: the kernel does not enforce RLIMIT_NPROC for root, and counts the
// processes of all runs of one user together.
type userPool struct{ next atomic.Uint32 }

// pick returns nil if the service does not run as root. Programs run as its own
// user then.
func (u *userPool) pick() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	id := firstUser + u.next.Add(1)%userCount
	return &syscall.Credential{Uid: id, Gid: id}
}
