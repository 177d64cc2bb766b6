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

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/seccomp"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/spawn"
)

// The file descriptors that bwrap inherits besides the program's three.
const (
	argumentsFD = 3 + iota
	statusFD
	startFD
	readyFD
	firstFileFD // of etcFiles, followed by the seccomp filter
)

// waitForCgroup is the beginning of the script that executes bwrap: it waits until
// the service has moved this process into its cgroup. So bwrap's own memory counts
// against the program's limit.
var waitForCgroup = fmt.Sprintf("read -r go <&%d || exit 1; ", startFD)

// handshake is the beginning of the launch script, inside the sandbox: it
// reports that it is ready, and waits for the service to start it. A failure
// before that is one of bwrap, a failure after it one of the program. If the
// service dies before bwrap has set its parent death signal, the read fails.
var handshake = fmt.Sprintf("echo >&%[2]d; read -r go <&%[1]d || exit 1; exec %[1]d<&- %[2]d>&-; ", startFD, readyFD)

// A process is a running bwrap and the sandbox in it.
type process struct {
	cmd            *exec.Cmd
	limits         Limits
	stopped        <-chan struct{}
	stdout, stderr Tail
	started        time.Time

	status   <-chan statusLine // closed when bwrap ends
	ready    <-chan struct{}   // the launch script waits
	start    *os.File          // for a line of this
	launched bool              // the launch script was ready
	ended    <-chan struct{}

	// init is nil until bwrap has reported its PID.
	init *initProcess

	// exitCode is the program's, or -1 until bwrap has reported it.
	exitCode int
	exceeded Limit
	grace    <-chan time.Time // from SIGTERM to SIGKILL
	killed   bool
	monitor  *monitor
}

// statusLine is a line of bwrap's --json-status-fd.
type statusLine struct {
	ChildPID *int `json:"child-pid"`
	ExitCode *int `json:"exit-code"`
}

// start runs bwrap. Its arguments are in a file, so that the program's
// environment does not show in the machine's process list.
func (b *bubblewrap) start(program string, spec Spec, user *syscall.Credential) (p *process, err error) {
	p = &process{limits: spec.Limits, stopped: spec.Stop, exitCode: -1, monitor: &monitor{
		limits: spec.Limits, scratch: scratchFolders(spec), mounts: spec.written(),
		others: func() bool { return b.running.Load() > 1 }, before: readMeminfo(),
	}}
	p.stdout.Limit, p.stderr.Limit = spec.Limits.Output, spec.Limits.Output
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
	if p.monitor.cgroup, err = b.cgroups.create(spec.Limits); err != nil {
		closeAll(pipes.ours())
		return nil, err
	}
	// The limits are set in the order of the nesting: cgroup outside, overlay, bwrap, rlimits
	// inside.
	script := handshake + limitScript(p.limits, p.openFiles(), enforcesProcessLimit(user))
	outside := waitForCgroup
	if spec.Root != nil && spec.Root.Changes != "" {
		outside += mountOverlay
	}
	args := []string{"-c", outside + `exec "$0" "$@"`, program, "--args", fmt.Sprint(argumentsFD), "--"}
	// supervise ends it when the context of Run ends.
	p.cmd = spawn.Command(context.Background(), nil, shell, slices.Concat(args, launch(script, spec.Argv))...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = "/", &p.stdout, &p.stderr, stopTimeout
	// Their positions are the file descriptors above: arguments first, files last.
	p.cmd.ExtraFiles = slices.Concat(files[:1], pipes.theirs(), files[1:])
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user, Pdeathsig: syscall.SIGKILL}
	if root := spec.Root; root != nil && root.Changes != "" {
		p.cmd.Dir, p.cmd.SysProcAttr = root.Changes, namespaced()
	}
	if len(spec.Stdin) > 0 {
		p.cmd.Stdin = bytes.NewReader(spec.Stdin)
	}
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		closeAll(pipes.ours())
		p.removeCgroup()
		return nil, err
	}
	p.start, p.ended = pipes.start.ours, wait(p.cmd)
	p.status, p.ready = readStatus(pipes.status.ours), awaitReady(pipes.ready.ours)
	// From here on the process must be ended on every path.
	if err := p.confine(); err != nil {
		p.kill()
		<-p.ended
		return nil, errors.Join(err, p.cleanUp())
	}
	return p, nil
}

// openFiles is the limit on open files of each process. It is lower where no
// cgroup counts the memory that the kernel holds for sockets and pipes.
func (p *process) openFiles() int {
	if p.monitor.cgroup == nil {
		return 256
	}
	return 1024
}

// confine enforces the limits that are set from outside (cgroup, oom_score_adj,
// prlimit), and starts bwrap. If the service has CAP_SYS_RESOURCE, as root has,
// the kernel does not let the program lower its oom_score_adj again.
func (p *process) confine() error {
	pid := p.cmd.Process.Pid
	if p.monitor.cgroup != nil {
		if err := p.monitor.cgroup.add(pid); err != nil {
			return err
		}
	}
	// The OOM killer picks the program first. Check reports where this fails.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0o600)
	// For architectures without a seccomp filter, which denies message queues.
	_ = unix.Prlimit(pid, unix.RLIMIT_MSGQUEUE, &unix.Rlimit{}, nil)
	_, _ = p.start.WriteString("\n") // fails only if bwrap has ended
	return nil
}

func (p *process) removeCgroup() {
	if p.monitor.cgroup != nil {
		p.monitor.cgroup.remove()
	}
}

// files returns the files that bwrap reads: its arguments, etcFiles and the
// seccomp filter.
func (b *bubblewrap) files(spec Spec) (files []*os.File, err error) {
	args := append(b.arguments(spec, firstFileFD), "--json-status-fd", fmt.Sprint(statusFD))
	var contents []string
	for _, file := range etcFilesOf(spec.Root) {
		contents = append(contents, file.content)
	}
	if filter := seccomp.Filter(); len(filter) > 0 {
		args = append(args, "--seccomp", fmt.Sprint(firstFileFD+len(contents)))
		contents = append(contents, string(filter))
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

// enforcesProcessLimit reports whether RLIMIT_NPROC counts the processes of this
// run only: for a user of its own, or per user namespace since Linux 5.14.
func enforcesProcessLimit(user *syscall.Credential) bool {
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

// wait supervises the program until it ends, and cleans up after it.
func (p *process) wait(ctx context.Context) (Result, error) {
	cancelled := p.supervise(ctx)
	// The OOM killer may have ended the program between two checks.
	if over := p.monitor.oomKilled(); over != "" && p.exceeded == "" {
		p.exceeded = over
	}
	peak := p.monitor.peak
	if p.monitor.cgroup != nil { // which knows what is taken between two checks
		peak = max(peak, p.monitor.cgroup.peakMemory())
	}
	if err := p.cleanUp(); err != nil {
		return Result{}, err
	}
	if cancelled {
		return Result{}, context.Cause(ctx)
	}
	if !p.launched && p.exceeded != Stopped {
		return Result{}, startError(p.stderr.Output().Tail)
	}
	if p.exceeded == machineLimit {
		return Result{}, fault.New(fault.Unavailable,
			"the program was ended: the machine, or the service, ran out of memory while it ran; "+
				"give it more, or run fewer programs at once")
	}
	// It may have exceeded the limit at its very end.
	if p.exceeded == "" && exceedsDisk(p.monitor.mounts, p.limits) {
		p.exceeded = DiskLimit
	}
	// bwrap was killed before it could report a status.
	if p.exitCode < 0 {
		p.exitCode = 128 + int(unix.SIGKILL)
	}
	result := Result{
		ExitCode: p.exitCode, Exceeded: p.exceeded, Stdout: p.stdout.Output(), Stderr: p.stderr.Output(),
		Duration: time.Since(p.started), PeakMemory: peak,
	}
	return result, checkSpace(result, p.monitor.mounts)
}

// startError returns the error of a bwrap that did not start the program. Hints
// depend on the beginning of its message only: the paths in it are chosen by the
// eval case.
func startError(stderr []byte) error {
	text := strings.TrimSpace(string(stderr[:min(len(stderr), 500)]))
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(text, "bwrap: "+w) })
	}
	hint := ""
	switch {
	case text == "":
		text = "bwrap ended without a word, or took too long"
	case says("Can't find source path"):
		hint = "; a service that runs as root runs programs as an unprivileged user, who must be able to reach the folder"
	case says("setting up uid map", "setting up gid map", "No permissions to creat", "Creating new namespace failed",
		"Can't create user namespace"):
		hint = "; this machine must let ordinary users make user namespaces " +
			"(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; " +
			"in a container: --security-opt seccomp=unconfined --security-opt systempaths=unconfined)"
	}
	return fault.New(fault.Unavailable, "the sandbox did not start: %s%s", text, hint)
}

// supervise enforces the time limit of a trial (wall clock) and its limits of
// memory, CPU, processes and disk, until bwrap has ended. It reports whether the
// context ended first.
func (p *process) supervise(ctx context.Context) (cancelled bool) {
	wall := time.NewTimer(p.limits.Wall)
	defer wall.Stop()
	check := time.NewTicker(monitorInterval)
	defer check.Stop()
	done := ctx.Done()
	for {
		select {
		case <-p.ended:
			return cancelled
		case line, open := <-p.status:
			if !open {
				p.status = nil
				continue
			}
			p.handleStatus(line)
		case _, p.launched = <-p.ready:
			p.ready = nil
			p.startProgram()
		case <-done:
			cancelled, done = true, nil
			p.kill()
		case <-wall.C:
			p.stop(WallLimit)
		case <-p.stopped:
			p.stopped = nil
			p.stop(Stopped)
		case <-p.grace:
			p.kill()
		case <-check.C:
			if over := p.monitor.check(); over != "" {
				p.stop(over)
			}
		}
	}
}

// handleStatus handles a line of bwrap's status.
func (p *process) handleStatus(line statusLine) {
	if line.ExitCode != nil {
		p.exitCode = *line.ExitCode
	}
	if line.ChildPID == nil {
		return
	}
	child, err := newInitProcess(*line.ChildPID)
	if err != nil {
		// Without a pidfd it could not be killed safely.
		_ = p.cmd.Process.Kill()
		return
	}
	p.init = child
	if p.killed {
		child.kill()
		return
	}
	// PID 1 of the sandbox is known: the monitor can start.
	p.monitor.initPID, p.monitor.root = child.pid, fmt.Sprintf("/proc/%d/root", child.pid)
	p.monitor.leastTCP = tcpMemory(p.monitor.socketStat())
	p.monitor.nextCheck = time.Now().Add(diskInterval)
	p.startProgram()
}

// startProgram starts the program once the launch script waits and can be
// killed.
func (p *process) startProgram() {
	if p.init != nil && p.launched {
		_, _ = p.start.WriteString("\n") // fails only if bwrap has ended
	}
}

// stop ends the program for exceeding a limit: with SIGTERM and a grace period
// if only its time is over or it was stopped, and with SIGKILL if it endangers the machine, also
// during the grace period.
func (p *process) stop(over Limit) {
	first := p.exceeded == ""
	if first {
		p.exceeded = over
	}
	if over != WallLimit && over != CPULimit && over != Stopped {
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
	_ = p.cmd.Process.Kill() // the program was not started yet
}

// cleanUp kills what is left of the program. It first drains the status and
// ready pipes, whose last messages may arrive together with the end of bwrap.
func (p *process) cleanUp() error {
	for p.status != nil {
		line, open := <-p.status
		if !open {
			break
		}
		if line.ExitCode != nil {
			p.exitCode = *line.ExitCode
		}
	}
	closeAll([]*os.File{p.start})
	var err error
	if p.init != nil {
		err = p.init.killAndWait()
		p.init.close()
	}
	p.removeCgroup()
	if p.ready != nil {
		select {
		case _, p.launched = <-p.ready:
		case <-time.After(stopTimeout):
		}
	}
	return err
}
