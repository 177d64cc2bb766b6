package sandbox

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// bubblewrap runs programs in namespaces of their own, which the program bwrap
// makes without any privilege.
type bubblewrap struct {
	program  string // "" means the one in PATH
	readOnly []string
	users    users
	groups   *groups
	running  atomic.Int32 // programs
}

func newBubblewrap(o Options) *bubblewrap {
	b := &bubblewrap{program: o.Program, readOnly: o.ReadOnly, groups: findGroups("/proc", writeFile)}
	b.users.next.Store(rand.Uint32())
	keepOpenFiles()
	if o.Log != nil {
		o.Log.Info("sandbox", "memory_limit_kept_by", b.groups.String())
	}
	return b
}

// keepOpenFiles keeps the files that this process was started with, beyond its
// three streams, from being passed on. All that Go opens is kept anyway.
func keepOpenFiles() {
	entries, _ := os.ReadDir("/proc/self/fd") // without /proc, bwrap does not run either
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
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
	spec.Limits = spec.Limits.WithDefaults()
	user := b.users.pick()
	if user != nil {
		if err := handOver(spec.Mounts, int(user.Uid)); err != nil {
			return Result{}, err
		}
	}
	// bwrap dies with its parent, and that is the thread that starts it.
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

// find returns the path of bwrap.
func (b *bubblewrap) find() (string, error) {
	name := b.program
	if name == "" {
		name = "bwrap"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fault.New(fault.Unavailable, "there is no sandbox on this machine; install bubblewrap: apt-get install bubblewrap").Because(err)
	}
	return path, nil
}

// users gives every run of a service that runs as root an unprivileged user of
// its own: the kernel does not count the processes of root.
type users struct{ next atomic.Uint32 }

const userCount = 1 << 16

// pick returns nil where the service is an ordinary user, who is unprivileged
// enough.
func (u *users) pick() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	id := firstUser + u.next.Add(1)%userCount
	return &syscall.Credential{Uid: id, Gid: id}
}
