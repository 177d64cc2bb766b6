package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// The descriptors that bwrap inherits beside the program's three.
const (
	argumentsFD = 3 + iota
	statusFD
	goFD
	readyFD
	firstFileFD // of written, and the filter after them
)

// held waits, outside of the sandbox, until it is in its cgroup, and becomes
// bwrap. All that bwrap does for the program counts as the program's.
var held = fmt.Sprintf(`read -r go <&%d || exit 1; exec "$0" "$@"`, goFD)

// handshake is what the launcher does first, inside: it says that it is there,
// and goes on when it is told to. Whatever comes later is the program's doing,
// whatever came before is bwrap's. If the service dies before bwrap has tied its
// life to it, nobody tells it.
var handshake = fmt.Sprintf("echo >&%[2]d; read -r go <&%[1]d || exit 1; exec %[1]d<&- %[2]d>&-; ", goFD, readyFD)

// A process is a bwrap that was started, and what is in it.
type process struct {
	cmd            *exec.Cmd
	limits         Limits
	stdout, stderr tail
	started        time.Time

	// news is what bwrap says of itself; it ends when bwrap does.
	news     <-chan news
	ready    <-chan struct{} // the launcher waits
	start    *os.File        // for this
	launched bool            // it was there
	ended    <-chan struct{}

	// init is the first process in the sandbox, or nil while bwrap has not
	// told it. When it ends, the kernel ends all others.
	init *initProcess

	// exitCode is the program's, or -1 while bwrap has not told it.
	exitCode int
	exceeded Limit
	grace    <-chan time.Time // from SIGTERM to SIGKILL
	killed   bool
	watch    *watch
}

// news is a line of bwrap's --json-status-fd.
type news struct {
	ChildPID *int `json:"child-pid"`
	ExitCode *int `json:"exit-code"`
}

// start runs bwrap. All it is told goes through a file, so that nobody who
// lists the machine's processes sees the program's environment.
func (b *bubblewrap) start(program string, spec Spec, user *syscall.Credential) (p *process, err error) {
	p = &process{limits: spec.Limits, exitCode: -1, watch: newWatch(spec)}
	p.watch.others, p.watch.before = func() bool { return b.running.Load() > 1 }, readMachine()
	p.stdout.limit, p.stderr.limit = spec.Limits.Output, spec.Limits.Output
	files, err := b.files(spec)
	defer closeAll(files)
	if err != nil {
		return nil, err
	}
	pipes, err := openPipes()
	defer closeAll(pipes.theirs())
	if err != nil {
		return nil, err
	}
	if p.watch.group, err = b.groups.make(spec.Limits); err != nil {
		closeAll(pipes.ours())
		return nil, err
	}
	script := handshake + launcher(p.limits, p.openFiles(), countsProcesses(user))
	args := []string{shell, "-c", held, program, "--args", fmt.Sprint(argumentsFD), "--"}
	p.cmd = &exec.Cmd{
		Path: shell, Args: slices.Concat(args, launch(script, spec.Argv)),
		Env: []string{"PATH=" + pathValue}, Dir: "/", Stdout: &p.stdout, Stderr: &p.stderr, WaitDelay: backstop,
		ExtraFiles:  slices.Concat(files[:1], pipes.theirs(), files[1:]),
		SysProcAttr: &syscall.SysProcAttr{Credential: user, Pdeathsig: syscall.SIGKILL},
	}
	if len(spec.Stdin) > 0 {
		p.cmd.Stdin = bytes.NewReader(spec.Stdin)
	}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		closeAll(pipes.ours())
		p.removeGroup()
		return nil, err
	}
	p.news, p.start, p.ready, p.ended = listen(pipes.status.ours), pipes.start.ours, await(pipes.ready.ours), wait(p.cmd)
	if err := p.confine(); err != nil {
		p.kill()
		<-p.ended
		return nil, errors.Join(err, p.clean())
	}
	return p, nil
}

// openFiles is how many a process of the program may have open. Where no cgroup
// counts what the kernel holds behind them, it is as few as most can do with.
func (p *process) openFiles() int {
	if p.watch.group == nil {
		return 256
	}
	return 1024
}

// confine puts bwrap under the limits that are set from outside, and lets it
// begin. Of a service that has the capability for it (CAP_SYS_RESOURCE, as root),
// the kernel does not let a program undo what it says here about its turn when
// memory runs out.
func (p *process) confine() error {
	pid := p.cmd.Process.Pid
	if p.watch.group != nil {
		if err := p.watch.group.add(pid); err != nil {
			return err
		}
	}
	// Check tells where this has no effect.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0o600)
	// Where there is no filter of system calls that refuses message queues.
	_ = unix.Prlimit(pid, unix.RLIMIT_MSGQUEUE, &unix.Rlimit{}, nil)
	_, _ = p.start.WriteString("\n") // if it is gone, its end tells
	return nil
}

func (p *process) removeGroup() {
	if p.watch.group != nil {
		p.watch.group.remove()
	}
}

// files returns what bwrap reads: its arguments, then the settings and the filter.
func (b *bubblewrap) files(spec Spec) (files []*os.File, err error) {
	args := append(
		b.arguments(spec, firstFileFD), "--json-status-fd", fmt.Sprint(statusFD),
	)
	var contents []string
	for _, file := range written {
		contents = append(contents, file.content)
	}
	if rules := program().bytes(); len(rules) > 0 {
		args = append(args, "--seccomp", fmt.Sprint(firstFileFD+len(contents)))
		contents = append(contents, string(rules))
	}
	contents = slices.Insert(contents, 0, strings.Join(args, "\x00")+"\x00")
	for _, content := range contents {
		f, err := memoryFile(content)
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	return files, nil
}

// countsProcesses reports whether the kernel counts the processes of this run
// apart from others: for a user of its own, or in a user namespace since Linux 5.14.
func countsProcesses(user *syscall.Credential) bool {
	if user != nil {
		return true
	}
	var name unix.Utsname
	var major, minor int
	if unix.Uname(&name) != nil {
		return false
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return major > 5 || major == 5 && minor >= 14
}

// wait sees the program to its end and cleans up after it.
func (p *process) wait(ctx context.Context) (Result, error) {
	cancelled := p.supervise(ctx)
	if over := p.watch.killed(); over != "" && p.exceeded == "" {
		p.exceeded = over
	}
	if err := p.clean(); err != nil {
		return Result{}, err
	}
	if cancelled {
		return Result{}, context.Cause(ctx)
	}
	if !p.launched {
		return Result{}, explain(p.stderr.output().Tail)
	}
	if p.exceeded == machineLimit {
		return Result{}, fault.New(fault.Unavailable, "the program was ended: the machine, or the service, ran out of memory while it ran; "+
			"give it more, or run fewer programs at once")
	}
	if p.exceeded == "" && mountsOver(p.watch.mounts, p.limits) {
		p.exceeded = DiskLimit
	}
	if p.exitCode < 0 {
		p.exitCode = 128 + int(unix.SIGKILL)
	}
	result := Result{
		ExitCode: p.exitCode, Exceeded: p.exceeded, Stdout: p.stdout.output(), Stderr: p.stderr.output(),
		Duration: time.Since(p.started), PeakMemory: p.watch.peak,
	}
	return result, checkSpace(result, p.watch.mounts)
}

// explain tells what bwrap said before it gave up. Only what it says by itself
// is taken for a reason: paths in its messages are the case's.
func explain(stderr []byte) error {
	text := strings.TrimSpace(string(stderr[:min(len(stderr), 500)]))
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(text, "bwrap: "+w) })
	}
	hint := ""
	switch {
	case text == "":
		text = "bwrap ended without a word, or took too long"
	case says("Can't find source path"):
		hint = "; the unprivileged user that programs of root run as must be able to reach the folder"
	case says("setting up uid map", "setting up gid map", "No permissions to creat", "Creating new namespace failed",
		"Can't create user namespace"):
		hint = "; this machine must let ordinary users make user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; in a container: --security-opt seccomp=unconfined --security-opt systempaths=unconfined)"
	}
	return fault.New(fault.Unavailable, "the sandbox did not start: %s%s", text, hint)
}

// supervise returns when bwrap has ended. It reports whether the context ended first.
func (p *process) supervise(ctx context.Context) (cancelled bool) {
	wall := time.NewTimer(p.limits.Wall)
	defer wall.Stop()
	look := time.NewTicker(watchInterval)
	defer look.Stop()
	done := ctx.Done()
	for {
		select {
		case <-p.ended:
			return cancelled
		case n, open := <-p.news:
			if !open {
				p.news = nil
				continue
			}
			p.hear(n)
		case _, there := <-p.ready:
			p.ready = nil
			p.launched = there
			p.release()
		case <-done:
			cancelled, done = true, nil
			p.kill()
		case <-wall.C:
			p.end(WallLimit)
		case <-p.grace:
			p.kill()
		case <-look.C:
			if over := p.watch.look(); over != "" {
				p.end(over)
			}
		}
	}
}

// hear takes notice of what bwrap says.
func (p *process) hear(n news) {
	if n.ExitCode != nil {
		p.exitCode = *n.ExitCode
	}
	if n.ChildPID == nil {
		return
	}
	child, err := openInit(*n.ChildPID)
	if err != nil {
		// Without a hold on it nothing may run.
		_ = p.cmd.Process.Kill()
		return
	}
	p.init = child
	if p.killed {
		child.kill()
		return
	}
	p.watch.begin(child.pid)
	p.release()
}

// release lets the program loose once it waits and can be held.
func (p *process) release() {
	if p.init != nil && p.launched {
		_, _ = p.start.WriteString("\n") // if bwrap is gone, its end tells
	}
}

// end ends the program for passing a limit: with a signal first if only its
// time is over, and at once if it is a danger to the machine, also when it is
// being ended already.
func (p *process) end(over Limit) {
	first := p.exceeded == ""
	if first {
		p.exceeded = over
	}
	if over != WallLimit && over != CPULimit {
		p.kill()
		return
	}
	if !first {
		return
	}
	if p.init == nil || p.init.terminate() != nil {
		p.kill()
		return
	}
	p.grace = time.After(p.limits.Grace)
}

func (p *process) kill() {
	p.killed = true
	if p.init != nil {
		p.init.kill()
		return
	}
	_ = p.cmd.Process.Kill() // nothing was let loose yet
}

// clean makes sure that nothing is left of the program. The status, and that the
// launcher is there, may come in the same moment as the end.
func (p *process) clean() error {
	for p.news != nil {
		n, open := <-p.news
		if !open {
			break
		}
		if n.ExitCode != nil {
			p.exitCode = *n.ExitCode
		}
	}
	closeAll([]*os.File{p.start})
	var err error
	if p.init != nil {
		err = p.init.killAndWait()
		p.init.close()
	}
	p.removeGroup()
	if p.ready != nil {
		select {
		case _, p.launched = <-p.ready:
		case <-time.After(backstop):
		}
	}
	return err
}
