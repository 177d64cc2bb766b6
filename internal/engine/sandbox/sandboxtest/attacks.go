//go:build linux

package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// An attack is one attempt to harm the machine.
type attack struct {
	name string
	run  func(*testing.T, *world)
}

// Run runs all attacks on a sandbox that binds. It needs the go command.
func Run(t *testing.T, s sandbox.Sandbox) {
	run(t, s, serial(), append(onMemory(), others()...))
}

// RunOnMemory runs only the attacks on the limits of memory and processes.
func RunOnMemory(t *testing.T, s sandbox.Sandbox) { run(t, s, serial(), onMemory()) }

// RunInRoot runs the attacks beside those on memory on a sandbox whose programs have
// a root: in it they may write, and they are root.
func RunInRoot(t *testing.T, s sandbox.Sandbox) {
	run(t, s, nil, slices.DeleteFunc(others(), func(a attack) bool { return a.name == "write outside" || a.name == "become root" }))
}

func run(t *testing.T, s sandbox.Sandbox, serial, parallel []attack) {
	attacker := Attacker(t)
	t.Logf("attempts to get out of the sandbox: %d", len(serial)+len(parallel))
	for _, a := range serial {
		t.Run(a.name, func(t *testing.T) { a.run(t, newWorld(t, s, attacker)) })
	}
	for _, a := range parallel {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.run(t, newWorld(t, s, attacker))
		})
	}
}

// serial are the attacks on memory that no process has. Without a cgroup the
// monitor sees it only in what the machine has lost: another attack at the same
// time would hide this one, or would be blamed for it and end with machineLimit.
func serial() []attack {
	return []attack{
		{"hide memory in TCP connections", hide("tcp")},
		{"hide shared memory that is not mapped", hide("dropped")},
		{"hide memory in sets of semaphores", hide("sets")},
		{"hide memory in stream sockets", hide("stream")},
		{"hide memory in datagram sockets", hide("datagram")},
		{"hide memory in sockets with large buffers", hide("large")},
		{"hide memory in netlink sockets", hide("netlink")},
		{"hide memory in unread answers of the kernel", hide("answers")},
		{"hide memory in UDP sockets", hide("udp")},
		{"hide memory in pipes", hide("pipes")},
		{"hide large pages in pipes", hide("spliced")},
		{"hide memory in System V message queues", hide("sysv")},
		{"hide memory in POSIX message queues", hide("posix")},
		{"hide memory in page tables", hide("tables")},
	}
}

func onMemory() []attack {
	return []attack{
		{"fork without end", forkBomb},
		{"take 10 GB of memory at once", attackWith("reserve")},
		{"take memory bit by bit", func(t *testing.T, w *world) { w.stopped(t, limits(), sandbox.MemoryLimit, "memory", plenty) }},
		{"take memory in many processes", func(t *testing.T, w *world) {
			w.stopped(t, limits(), sandbox.MemoryLimit, "children", "3", strconv.Itoa(64<<20))
		}},
		{"take shared memory", func(t *testing.T, w *world) { w.stopped(t, limits(), sandbox.MemoryLimit, "shared", plenty) }},
		{"take memory that no process has", attackWith("memfd", plenty)},
		{"lower oom_score_adj", attackWith("priority")},
		{"fill the scratch folders", attackWith("fill", plenty, "/tmp", "/home/sandbox", "/dev/shm", "/dev", "/run")},
	}
}

func others() []attack {
	return []attack{
		{"reach a listener by TCP", reachTCP},
		{"reach a listener by UDP", reachUDP},
		{"reach a Unix socket by path", reachUnixPath},
		{"reach an abstract Unix socket", reachUnixAbstract},
		{"see another interface", attackWith("interfaces")},
		{"talk to the hypervisor", attackWith("vsock")},
		{"read the data folder", readData},
		{"read the system's secrets", attackWith("read", "/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/ssl/private",
			"/root", "/var/lib", "/var/log", "/boot", "/sys", "/run", "/proc/kcore", "/proc/1/root/etc/shadow",
			"/etc/machine-id")},
		{"read the environment of others", readOthers},
		{"read the server's environment", readEnvironment},
		{"find open files of the server", attackWith("open")},
		{"write outside", writeOutside},
		{"write to a read-only mount", attackWith("write", attackerDir+"/attacker", attackerDir+"/new")},
		{"pass for a sandbox that does not start", fakeFailure},
		{"write a file of 10 GB", growFile},
		{"fill the disk", fillDisk},
		{"fill the disk in closed folders", fillClosed},
		{"nest folders without end", nestFolders},
		{"use the processor without end", spinForEver},
		{"use the processor and ignore SIGTERM", spinIgnoring},
		{"sleep past the limit", sleepPast},
		{"ignore SIGTERM", ignoreTerm},
		{"outlive the run", outlive},
		{"outlive a cancelled run", outliveCancelled},
		{"use dangerous system calls", attackWith("calls")},
		{"mount", attackWith("mount")},
		{"make namespaces", attackWith("namespace")},
		{"become root", attackWith("root")},
		{"use devices", attackWith("devices")},
		{"type into a terminal", attackWith("terminal")},
		{"plant links in the outputs", plantLinks},
		{"print 100 MB", printMuch},
		{"kill processes outside", killOutside},
	}
}

// plenty is the most that an attempt takes, in bytes: far above the limits and
// far below what would harm the machine.
const plenty = "268435456"

// hide expects that memory which no process's RSS contains counts against the
// limit: the program is killed, or denied the rest.
func hide(way string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		// More than the noise of the monitor.
		const most, processes = 1280 << 20, 20
		l := limits()
		l.Memory, l.Processes = 256<<20, 512 // the attacker's threads count, too
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		result, err := w.sandbox.Run(ctx, w.spec(l, "hidden", way, strconv.Itoa(most), strconv.Itoa(processes)))
		if err != nil {
			t.Fatal(err)
		}
		if result.Exceeded == sandbox.MemoryLimit {
			return
		}
		var taken int64
		for line := range strings.Lines(string(result.Stdout.Tail)) {
			_, _ = fmt.Sscanf(line, "denied: %d MiB are all there is", &taken) // other lines say other things
		}
		denied := strings.Contains(string(result.Stdout.Tail), "denied: ")
		if result.ExitCode != 0 || result.Exceeded != "" || !denied || taken<<20 > l.Memory {
			t.Errorf("status %d, exceeded %q, %d MiB with a limit of %d\nstdout: %s",
				result.ExitCode, result.Exceeded, taken, l.Memory>>20, result.Stdout.Tail)
		}
	}
}

// fakeFailure checks that a message of the program is not taken for one of bwrap.
func fakeFailure(t *testing.T, w *world) {
	spec := w.spec(limits())
	spec.Argv = []string{"sh", "-c", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1"}
	result, err := w.sandbox.Run(t.Context(), spec)
	if err != nil || result.ExitCode != 1 {
		t.Errorf("got status %d, %v; want the program's own status", result.ExitCode, err)
	}
}

func attackWith(attempt ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) { w.denied(t, attempt...) }
}

func reachTCP(t *testing.T, w *world) {
	attempt := []string{"dial"}
	var listeners []*net.TCPListener
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil && address == "[::1]:0" {
			continue // a machine without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		listeners = append(listeners, l.(*net.TCPListener))
		attempt = append(attempt, "tcp", l.Addr().String())
	}
	w.denied(t, attempt...)
	for _, l := range listeners {
		noConnection(t, l.Accept, l.SetDeadline)
	}
}

// noConnection checks that no connection waits to be accepted.
func noConnection(t *testing.T, accept func() (net.Conn, error), setDeadline func(time.Time) error) {
	t.Helper()
	if err := setDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if conn, err := accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got a connection: %v, %v", conn, err)
	}
}

func reachUDP(t *testing.T, w *world) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.denied(t, "dial", "udp", l.LocalAddr().String())
	if err := l.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, from, err := l.ReadFrom(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes came from %v: %v", n, from, err)
	}
}

func reachUnixPath(t *testing.T, w *world) {
	reachUnix(t, w, filepath.Join(Folder(t), "socket"))
}

func reachUnixAbstract(t *testing.T, w *world) {
	reachUnix(t, w, "@sandboxtest-"+w.marker)
}

func reachUnix(t *testing.T, w *world, address string) {
	l, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.denied(t, "dial", "unix", address)
	noConnection(t, l.Accept, l.(*net.UnixListener).SetDeadline)
}

func readData(t *testing.T, w *world) {
	w.denied(t, "read", w.secret, filepath.Dir(w.secret), filepath.Dir(filepath.Dir(w.secret)),
		"/proc/1/root"+w.secret, sharedDir+"/../.."+w.secret)
}

// bystander is a process of the machine with a secret in its environment.
func bystander(t *testing.T, w *world) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.Env = []string{"SECRET=" + w.marker}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func readOthers(t *testing.T, w *world) {
	other := bystander(t, w)
	w.denied(t, FindSecret(w.marker)...)
	w.denied(t, "read", fmt.Sprintf("/proc/%d/environ", other.Process.Pid), fmt.Sprintf("/proc/%d/cmdline", os.Getpid()))
}

func readEnvironment(t *testing.T, w *world) {
	if os.Getenv("HOME")+os.Getenv("USER")+os.Getenv("PWD") == "" {
		t.Fatal("the test itself has no environment to leak")
	}
	w.denied(t, "environment", "PATH", "LANG", "HOME", "TMPDIR", "PWD")
}

func writeOutside(t *testing.T, w *world) {
	w.denied(t, "write", w.secret, filepath.Join(filepath.Dir(w.secret), "new"), "/new", "/usr/new", "/usr/bin/new",
		"/etc/passwd", "/etc/new", "/bin/new", "/var/new", "/run/new", "/dev/new", "/home/new",
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/1/oom_score_adj/new")
}

func forkBomb(t *testing.T, w *world) {
	w.denied(t, "fork", strconv.Itoa(limits().Processes), "200", w.marker)
}

func growFile(t *testing.T, w *world) {
	w.denied(t, "grow", sharedDir, strconv.Itoa(16<<20))
	info, err := os.Stat(filepath.Join(w.shared, "large"))
	if err != nil || info.Size() > limits().FileSize {
		t.Errorf("the file has %v bytes, %v", info.Size(), err)
	}
}

func fillDisk(t *testing.T, w *world) {
	l := limits()
	l.FileSize = 2 << 20
	w.stopped(t, l, sandbox.DiskLimit, "many", sharedDir, "32")
}

func fillClosed(t *testing.T, w *world) {
	l := limits()
	l.FileSize = 2 << 20
	w.stopped(t, l, sandbox.DiskLimit, "closed", sharedDir, "32")
}

func nestFolders(t *testing.T, w *world) {
	w.stopped(t, limits(), sandbox.DiskLimit, "nest", sharedDir)
	if err := sandbox.Remove(w.shared); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(w.shared); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func spinForEver(t *testing.T, w *world) {
	l := limits()
	l.CPU = 300 * time.Millisecond
	w.stopped(t, l, sandbox.CPULimit, "spin")
}

// spinIgnoring exceeds two time limits and ignores SIGTERM.
func spinIgnoring(t *testing.T, w *world) {
	l := limits()
	var result sandbox.Result
	// A busy machine may not give it its time on a processor soon enough.
	for wall := time.Second; wall <= 16*time.Second; wall *= 2 {
		l.CPU, l.Wall, l.Grace = 200*time.Millisecond, wall, wall+wall/2
		if result = w.run(t, l, "spin", "deaf"); result.Exceeded == sandbox.CPULimit {
			return
		}
	}
	t.Errorf("status %d, exceeded %q, want the processor's time", result.ExitCode, result.Exceeded)
}

func sleepPast(t *testing.T, w *world) {
	l := limits()
	l.Wall, l.Grace = 500*time.Millisecond, 10*time.Second // a busy machine is slow to end it
	spec := w.spec(l)
	spec.Argv = []string{"sleep", w.marker}
	result, err := w.sandbox.Run(t.Context(), spec)
	if err != nil || result.Exceeded != sandbox.WallLimit || result.Signal() != int(unix.SIGTERM) {
		t.Errorf("status %d, exceeded %q, %v; want a SIGTERM for the time", result.ExitCode, result.Exceeded, err)
	}
}

func ignoreTerm(t *testing.T, w *world) {
	l := limits()
	l.Wall = 3 * time.Second // in which any machine starts it
	result := w.run(t, l, "stay", w.marker)
	killed := result.Exceeded == sandbox.WallLimit && result.Signal() == int(unix.SIGKILL)
	if !killed || string(result.Stdout.Tail) != "staying\n" {
		t.Errorf("status %d, exceeded %q, stdout %q; want a SIGKILL for the time",
			result.ExitCode, result.Exceeded, result.Stdout.Tail)
	}
}

// outlive checks that the lock of a daemon is free again.
func outlive(t *testing.T, w *world) {
	w.denied(t, "daemon", sharedDir+"/lock", w.marker)
	f, err := os.OpenFile(filepath.Join(w.shared, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("the daemon is still alive: %v", err)
	}
}

func outliveCancelled(t *testing.T, w *world) {
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("cancelled by the test")
	time.AfterFunc(200*time.Millisecond, func() { cancel(reason) })
	_, err := w.sandbox.Run(ctx, w.spec(limits(), "stay", w.marker))
	if !errors.Is(err, reason) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// plantLinks shows why outputs are read through an os.Root, and that a link
// cannot be the source of a mount.
func plantLinks(t *testing.T, w *world) {
	w.denied(t, "link", sharedDir, filepath.Dir(w.secret))
	root, err := os.OpenRoot(w.shared)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if content, err := root.ReadFile("folder/secret"); err == nil {
		t.Errorf("the link leads to %q", content)
	}
	spec := w.spec(limits(), "read", "/outside/secret")
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: filepath.Join(w.shared, "folder"), Target: "/outside", Writable: true})
	if _, err := w.sandbox.Run(t.Context(), spec); !fault.Is(err, fault.Malformed) {
		t.Errorf("a link was mounted: %v", err)
	}
}

func printMuch(t *testing.T, w *world) {
	result := w.run(t, limits(), "print")
	const most = 64 << 10
	for name, stream := range map[string]sandbox.Output{"stdout": result.Stdout, "stderr": result.Stderr} {
		if len(stream.Tail) != most || stream.Discarded < 100<<20-most {
			t.Errorf("%s: %d bytes kept, %d discarded", name, len(stream.Tail), stream.Discarded)
		}
	}
	if result.ExitCode != 0 {
		t.Errorf("status %d", result.ExitCode)
	}
}

func killOutside(t *testing.T, w *world) {
	other := bystander(t, w)
	w.denied(t, "kill", strconv.Itoa(other.Process.Pid))
	if err := other.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the bystander is dead: %v", err)
	}
}
