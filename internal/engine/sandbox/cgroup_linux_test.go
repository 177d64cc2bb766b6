package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A fakeTree is a folder that behaves like cgroup v2 for writes through write: a
// process is in one cgroup only, and a cgroup with processes cannot delegate
// controllers.
type fakeTree struct {
	t     *testing.T
	root  string
	proc  string
	wrote []string
	// refuse maps suffixes of file names to the error of a write.
	refuse map[string]error
}

// newFakeTree makes a tree in which this process is in the cgroup at a path.
func newFakeTree(t *testing.T, controllers, at string, processes ...int) *fakeTree {
	t.Helper()
	f := &fakeTree{t: t, root: t.TempDir(), proc: t.TempDir(), refuse: map[string]error{}}
	f.file(filepath.Join(f.proc, "self", "cgroup"), "0::"+at+"\n")
	f.file(filepath.Join(f.proc, "self", "mountinfo"),
		fmt.Sprintf("30 23 0:26 / %s rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", f.root))
	f.file(f.stat(os.Getpid()), statOf("4711"))
	own := filepath.Join(f.root, at)
	f.file(filepath.Join(own, "cgroup.controllers"), controllers)
	f.file(filepath.Join(own, "cgroup.subtree_control"), "\n")
	f.file(filepath.Join(own, "cgroup.procs"), strings.Trim(fmt.Sprint(processes), "[]"))
	return f
}

func (f *fakeTree) stat(pid int) string { return filepath.Join(f.proc, strconv.Itoa(pid), "stat") }

// statOf is the stat file of a process with a start time.
func statOf(started string) string {
	return "1 (a) b) S" + strings.Repeat(" 0", 18) + " " + started + " 0 0\n"
}

func (f *fakeTree) file(name, content string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeTree) read(name string) string {
	content, _ := os.ReadFile(filepath.Join(f.root, name)) // missing is empty
	return strings.TrimSpace(string(content))
}

func (f *fakeTree) write(file, text string) error {
	name, err := filepath.Rel(f.root, file)
	if err != nil {
		return err
	}
	f.wrote = append(f.wrote, name+" "+text)
	for end, err := range f.refuse {
		if strings.HasSuffix(name, end) {
			return err
		}
	}
	switch dir, base := filepath.Split(file); base {
	case "cgroup.subtree_control":
		if content, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")); len(content) > 0 {
			return syscall.EBUSY
		}
		enabled, _ := os.ReadFile(file) // missing is none
		text = strings.TrimSpace(string(enabled) + " " + strings.ReplaceAll(text, "+", ""))
	case "cgroup.procs":
		f.move(text)
	case "cgroup.kill":
		return os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o600)
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// move removes a process from the cgroup that it is in.
func (f *fakeTree) move(pid string) {
	for _, file := range f.procs() {
		content, err := os.ReadFile(file)
		if err != nil {
			f.t.Fatal(err)
		}
		left := slices.DeleteFunc(strings.Fields(string(content)), func(p string) bool { return p == pid })
		f.file(file, strings.Join(left, " "))
	}
}

func (f *fakeTree) procs() (all []string) {
	err := filepath.WalkDir(f.root, func(p string, _ os.DirEntry, err error) error {
		if filepath.Base(p) == "cgroup.procs" {
			all = append(all, p)
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// cleanUp removes the files of a cgroup, as the kernel does with the folder.
func (f *fakeTree) cleanUp(g *cgroup) {
	for _, folder := range g.folders {
		files, _ := filepath.Glob(filepath.Join(folder, "*")) // the pattern is good
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

const unit = "/system.slice/whetstone.service"

// TestDelegated follows the steps in a subtree that systemd delegated.
func TestDelegated(t *testing.T) {
	f := newFakeTree(t, "cpu memory pids\n", unit, os.Getpid())
	g := &cgroups{owner: cgroupPrefix + "1-2", write: f.write}
	if err := g.enable(filepath.Join(f.root, unit)); err != nil {
		t.Fatal(err)
	}
	available := []byte("cpu memory pids\n")
	if !g.enableCPU(filepath.Join(f.root, unit), available) || g.enableCPU(filepath.Join(f.root, unit), []byte("memory pids")) {
		t.Error("the controller cpu is not enabled, or where it is missing")
	}
	self := strconv.Itoa(os.Getpid())
	want := []string{
		unit[1:] + "/" + serviceCgroup + "/cgroup.procs " + self, unit[1:] + "/cgroup.subtree_control +memory +pids",
		unit[1:] + "/cgroup.subtree_control +cpu",
	}
	if diff := cmp.Diff(want, f.wrote); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if got := f.read(unit + "/" + serviceCgroup + "/cgroup.procs"); got != self {
		t.Errorf("the service's cgroup holds %q", got)
	}
	f.wrote = nil
	if err := g.enable(filepath.Join(f.root, unit)); err != nil || f.wrote != nil {
		t.Errorf("again: %v, wrote %q", err, f.wrote)
	}

	g.version, g.folders, g.controllers = 2, []string{filepath.Join(f.root, unit)}, []string{"memory", "pids", "cpu"}
	c, err := g.create(Limits{Memory: 1 << 30, Processes: 10, CPUs: 1.5})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.add(4712); err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(f.root, c.folders[0])
	if err != nil || !strings.HasPrefix(name, unit[1:]+"/"+cgroupPrefix+"1-2-") {
		t.Fatalf("the cgroup is %s, %v", name, err)
	}
	for file, want := range map[string]string{
		"memory.max": "1073741824", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "12", "cgroup.procs": "4712",
		"cpu.max": "150000 100000",
	} {
		if got := f.read(name + "/" + file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	for events, want := range map[string][2]bool{
		"low 0\nhigh 0\nmax 7\noom 0\noom_kill 0\noom_group_kill 0\n": {false, false},
		"low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 1\n": {true, true},
		"low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\noom_group_kill 0\n": {true, false}, // a limit above
	} {
		f.file(filepath.Join(f.root, name, "memory.events"), events)
		if killed, own := c.oomKilled(); killed != want[0] || own != want[1] {
			t.Errorf("%q: killed %t, for its own limit %t", events, killed, own)
		}
	}
	f.file(filepath.Join(f.root, name, "memory.peak"), "67108864\n")
	if got := c.peakMemory(); got != 64<<20 {
		t.Errorf("the peak is %d", got)
	}
	g.killAll(c.folders[0])
	if got := f.read(name + "/cgroup.procs"); got != "" {
		t.Errorf("%q is left in the cgroup", got)
	}
	f.cleanUp(c)
	if c.remove(); exists(c.folders[0]) {
		t.Error("the cgroup is left")
	}
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// TestNotDelegated checks that the service moves back, and the hint.
func TestNotDelegated(t *testing.T) {
	tests := []struct {
		name, controllers string
		processes         []int
		refuse            map[string]error
		says              string
	}{
		{"others are there", "memory pids", []int{1, os.Getpid()}, nil, "other processes share"},
		{"no controllers", "cpu", []int{os.Getpid()}, nil, "no controllers"},
		{"may not move", "memory pids", []int{os.Getpid()}, map[string]error{"cgroup.procs": os.ErrPermission}, "may not create"},
		{"read-only", "memory pids", []int{os.Getpid()}, map[string]error{"subtree_control": syscall.EROFS}, "may not create"},
		{"no limit", "memory pids", []int{os.Getpid()}, map[string]error{"memory.max": syscall.EINVAL}, "cannot be created"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFakeTree(t, test.controllers, unit, test.processes...)
			f.refuse = test.refuse
			g := detectCgroups(f.proc, f.write)
			if g.version != 0 || g.folders != nil || !strings.Contains(g.missing, test.says) || !strings.Contains(g.missing, "Delegate=") {
				t.Errorf("version %d, folders %q, missing %q", g.version, g.folders, g.missing)
			}
			if c, err := g.create(Limits{}); c != nil || err != nil {
				t.Errorf("made %v, %v", c, err)
			}
			self := strconv.Itoa(os.Getpid())
			if got := f.read(unit + "/cgroup.procs"); test.says == "other processes share" && !strings.Contains(got, self) {
				t.Errorf("the service is not back: %q", got)
			}
		})
	}
}

// TestCgroupDir parses /proc/self/cgroup and mountinfo.
func TestCgroupDir(t *testing.T) {
	tests := []struct{ name, cgroup, mounts, v2, memory string }{
		{"v2", "0::/a/b\n", "1 2 0:3 / /c rw - cgroup2 cgroup2 rw\n", "/c/a/b", ""},
		{"v2, root of a namespace", "0::/\n", "1 2 0:3 / /c rw - cgroup2 cgroup2 rw\n", "/c", ""},
		{"v2, outside of the namespace", "0::/../x\n", "1 2 0:3 / /c rw - cgroup2 cgroup2 rw\n", "", ""},
		{"v1, in a container", "4:pids,memory:/d/e/f\n", "1 2 0:3 /d/e /c rw - cgroup cgroup rw,memory,pids\n", "", "/c/f"},
		{"v1, another's", "4:memory:/d/ef\n", "1 2 0:3 /d/e /c rw - cgroup cgroup rw,memory\n", "", ""},
		{"both", "2:memory:/m\n0::/u\n", "1 2 0:3 / /c/memory rw - cgroup cgroup rw,memory\n1 2 0:4 / /c/unified rw - cgroup2 cgroup2 rw\n", "/c/unified/u", "/c/memory/m"},
		{"none", "", "", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFakeTree(t, "", "/")
			f.file(filepath.Join(f.proc, "self", "cgroup"), test.cgroup)
			f.file(filepath.Join(f.proc, "self", "mountinfo"), test.mounts)
			if got := cgroupDirV2(f.proc); got != test.v2 {
				t.Errorf("v2: got %q, want %q", got, test.v2)
			}
			if got := cgroupDirV1(f.proc, "memory"); got != test.memory {
				t.Errorf("v1: got %q, want %q", got, test.memory)
			}
		})
	}
}

// TestSweep removes the cgroups of killed services, and no others.
func TestSweep(t *testing.T) {
	f := newFakeTree(t, "memory pids", unit)
	other := 4712
	f.file(f.stat(other), statOf("99"))
	g := &cgroups{version: 2, folders: []string{filepath.Join(f.root, unit)}, write: f.write}
	for name, left := range map[string]bool{
		cgroupPrefix + fmt.Sprintf("%d-4711-1", os.Getpid()): true,
		cgroupPrefix + "4712-99-3":                           true,
		cgroupPrefix + "4712-98-3":                           false, // the PID was reused
		cgroupPrefix + "5000-1-1":                            false,
		"user.slice":                                         true,
	} {
		folder := filepath.Join(f.root, unit, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if g.sweep(f.proc); exists(folder) != left {
			t.Errorf("%s: left %t, want %t", name, !left, left)
		}
	}
}

// realCgroups skips the test where it may not create cgroups.
func realCgroups(t *testing.T) *cgroups {
	t.Helper()
	g := detectCgroups("/proc", writeFile)
	if g.version == 0 {
		t.Skip("needs a machine that lets this user create cgroups: " + g.missing)
	}
	return g
}

// TestCgroup checks that the kernel enforces the limits on memory and processes,
// and that nothing is left.
func TestCgroup(t *testing.T) {
	g := realCgroups(t)
	c, err := g.create(Limits{Memory: 32 << 20, Processes: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer c.remove()
	// It waits until it is in the cgroup, and then reads an endless line into memory.
	cmd := exec.Command("sh", "-c", "read -r go; exec tail /dev/zero")
	start, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if killed, own := c.oomKilled(); killed || own {
		t.Errorf("killed %t, for its own limit %t, before it began", killed, own)
	}
	if _, err := start.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("tail of an endless file ended by itself")
	}
	if killed, own := c.oomKilled(); !killed || !own {
		t.Errorf("killed %t, for its own limit %t", killed, own)
	}
	sleeping := exec.Command("sleep", "60")
	if err := sleeping.Start(); err != nil {
		t.Fatal(err)
	}
	if err := c.add(sleeping.Process.Pid); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- sleeping.Wait() }()
	c.remove()
	if err := <-waited; err == nil {
		t.Error("a process in the cgroup was not killed")
	}
	for _, folder := range c.folders {
		if exists(folder) {
			t.Errorf("%s is left", folder)
		}
	}
}

// TestCPUs: the kernel gives a program its share of the processors and no more.
func TestCPUs(t *testing.T) {
	g := realCgroups(t)
	if !g.controls("cpu") {
		t.Skip("no cgroup for processors")
	}
	b := newBubblewrap(Options{})
	b.cgroups = g
	// Two busy loops take two processors for a second, or a tenth of one.
	result, err := b.Run(t.Context(), Spec{
		Argv:   []string{"sh", "-c", "timeout 1 sh -c 'while :; do :; done' & timeout 1 sh -c 'while :; do :; done' & wait; times"},
		Limits: Limits{CPUs: 0.1, CPU: time.Minute},
	})
	if err != nil || result.Exceeded != "" {
		t.Fatalf("got %+v, %v", result, err)
	}
	lines := strings.Split(strings.TrimSpace(string(result.Stdout.Tail)), "\n")
	var minutes int
	var user float64
	if _, err := fmt.Sscanf(lines[len(lines)-1], "%dm%fs", &minutes, &user); err != nil || minutes > 0 || user > 0.5 {
		t.Errorf("the children took %q, %v", lines, err)
	}
}

// TestSweepReal is TestSweep with the kernel.
func TestSweepReal(t *testing.T) {
	g := realCgroups(t)
	left := &cgroups{
		version: g.version, folders: g.folders, controllers: g.controllers, owner: cgroupPrefix + "999999999-1", write: writeFile,
	}
	c, err := left.create(Limits{}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	mine, err := g.create(Limits{}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer mine.remove()
	realCgroups(t)
	if exists(c.folders[0]) {
		t.Error("the cgroup of a dead process is left")
	}
	if !exists(mine.folders[0]) {
		t.Error("the cgroup of a running process was removed")
	}
}
