package sandbox

import (
	"bytes"
	"context"
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

// handshake is what the launcher does first: it says that it is there, and goes
// on when it is told to. If the service dies before bwrap has tied its life to
// it, nobody tells it.
var handshake = fmt.Sprintf("echo >&%[2]d; read -r go <&%[1]d || exit 1; exec %[1]d<&- %[2]d>&-; ", goFD, readyFD)

// A process is a bwrap that was started, and what is in it.
type process struct {
	cmd            *exec.Cmd
	limits         Limits
	stdout, stderr tail
	started        time.Time

	// news is what bwrap says of itself; it ends when bwrap does.
	news  <-chan news
	ready <-chan struct{} // the launcher waits
	start *os.File        // for this
	ended <-chan struct{}

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
	script := handshake + launcher(p.limits, countsProcesses(user))
	p.cmd = &exec.Cmd{
		Path: program, Args: append([]string{program, "--args", fmt.Sprint(argumentsFD), "--"}, launch(script, spec.Argv)...),
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
		return nil, err
	}
	p.news, p.start, p.ready, p.ended = listen(pipes.status.ours), pipes.start.ours, await(pipes.ready.ours), wait(p.cmd)
	return p, nil
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
	if err := p.clean(); err != nil {
		return Result{}, err
	}
	if cancelled {
		return Result{}, context.Cause(ctx)
	}
	if p.exceeded == "" && p.notStarted() {
		return Result{}, explain(p.stderr.output().Tail)
	}
	if p.exceeded == "" && mountsOver(p.watch.mounts, p.limits) {
		p.exceeded = DiskLimit
	}
	if p.exitCode < 0 {
		p.exitCode = 128 + int(unix.SIGKILL)
	}
	return Result{
		ExitCode: p.exitCode, Exceeded: p.exceeded, Stdout: p.stdout.output(), Stderr: p.stderr.output(),
		Duration: time.Since(p.started), PeakMemory: p.watch.peak,
	}, nil
}

// notStarted reports whether bwrap gave up: it tells no status then, except
// when the last thing it does, to become the program, goes wrong.
func (p *process) notStarted() bool {
	return p.exitCode < 0 || p.exitCode == 1 && bytes.HasPrefix(p.stderr.output().Tail, []byte("bwrap: "))
}

// explain tells what bwrap said before it gave up.
func explain(stderr []byte) error {
	text := strings.TrimSpace(string(stderr[:min(len(stderr), 500)]))
	hint := ""
	switch {
	case strings.Contains(text, "source path"):
		hint = "; the unprivileged user that programs of root run as must be able to reach the folder"
	case strings.Contains(text, "uid map"), strings.Contains(text, "namespace"):
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
		case <-p.ready:
			p.ready = nil
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
	if p.init != nil && p.ready == nil {
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

// clean makes sure that nothing is left of the program. The status may come in
// the same moment as the end.
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
	if p.init == nil {
		return nil
	}
	defer p.init.close()
	return p.init.killAndWait()
}
