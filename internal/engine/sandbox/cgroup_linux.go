package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cgroups creates a cgroup for each program, in which the kernel enforces the
// limits on memory and processes. Only a cgroup also counts memory that the
// kernel holds for a program: socket buffers, pipes, page tables. The zero value
// creates none; a monitor enforces the limits then.
type cgroups struct {
	// version is 1 or 2 for cgroup v1 or v2, or 0 if the service may not create
	// cgroups; then missing says why and what to do.
	version int
	missing string
	// folders are the parents of new cgroups. cgroup v2 has one, cgroup v1 one for
	// each of the controllers.
	folders []string
	// controllers are those in use: memory, and where the service may use them pids
	// and cpu.
	controllers []string

	owner string // prefix of the names of this process's cgroups
	write func(file, text string) error
}

const (
	// cgroupPrefix is the prefix of the names of all cgroups of programs.
	cgroupPrefix = "whetstone-run-"
	// serviceCgroup is where the service moves itself on cgroup v2: a cgroup
	// that delegates controllers to children must not contain processes ("no
	// internal processes").
	serviceCgroup = "whetstone-service"
)

// detectCgroups looks for a place where this process may create cgroups: a
// delegated subtree of cgroup v2, else cgroup v1. proc is /proc.
func detectCgroups(proc string, write func(file, text string) error) *cgroups {
	pid := strconv.Itoa(os.Getpid())
	g := &cgroups{owner: cgroupPrefix + pid + "-" + startTime(proc, pid), write: write}
	ok, missing := g.detectV2(proc)
	if ok || g.detectV1(proc) {
		return g
	}
	g.missing = missing
	return g
}

// String names what enforces the limit on memory, for the log.
func (g *cgroups) String() string {
	if g.version == 0 {
		return "rlimits and a monitor, since there is no cgroup: " + g.missing
	}
	return fmt.Sprintf("cgroup v%d", g.version)
}

// writeFile writes a control file of a cgroup.
func writeFile(file, text string) error { return os.WriteFile(file, []byte(text), 0o600) }

const (
	delegate  = "start the service from a systemd unit with Delegate=cpu memory pids (see deploy/systemd)"
	container = "in a container, cgroups must be mounted writable"
)

// detectV2 uses the service's own cgroup v2. It returns why it cannot.
func (g *cgroups) detectV2(proc string) (ok bool, missing string) {
	own := cgroupDirV2(proc)
	if own == "" {
		return false, "this machine has no cgroups; mount cgroup2 at /sys/fs/cgroup"
	}
	if filepath.Base(own) == serviceCgroup { // another sandbox of this process has moved it
		own = filepath.Dir(own)
	}
	controllers, err := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	if err != nil || !hasControllers(controllers) {
		return false, "the service's cgroup has no controllers for memory and processes; " + delegate
	}
	if err := g.enable(own); err != nil {
		return false, whyNotEnabled(err)
	}
	g.version, g.folders, g.controllers = 2, []string{own}, []string{"memory", "pids"}
	if g.enableCPU(own, controllers) {
		g.controllers = append(g.controllers, "cpu")
	}
	g.sweep(proc)
	if err := g.probe(); err != nil {
		g.version, g.folders, g.controllers = 0, nil, nil
		return false, whyNotEnabled(err)
	}
	return true, ""
}

// enableCPU delegates the controller of processor time, which units from before it
// was used do not have. It reports whether programs' cgroups have it.
func (g *cgroups) enableCPU(own string, available []byte) bool {
	if !slices.Contains(strings.Fields(string(available)), "cpu") {
		return false
	}
	control := filepath.Join(own, "cgroup.subtree_control")
	enabled, err := os.ReadFile(control)
	if err == nil && slices.Contains(strings.Fields(string(enabled)), "cpu") {
		return true
	}
	return g.write(control, "+cpu") == nil
}

func whyNotEnabled(err error) string {
	switch {
	case errors.Is(err, syscall.EBUSY):
		return "other processes share the service's cgroup; " + delegate
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "the service may not create cgroups; " + delegate + "; " + container
	}
	return fmt.Sprintf("cgroups cannot be created: %s; %s", err, delegate)
}

func hasControllers(list []byte) bool {
	all := strings.Fields(string(list))
	return slices.Contains(all, "memory") && slices.Contains(all, "pids")
}

// enable delegates the controllers to the children of own. The kernel refuses
// that with EBUSY while processes are in own, so this process moves to a cgroup
// beside those of the programs, and back if there are other processes.
func (g *cgroups) enable(own string) (err error) {
	control := filepath.Join(own, "cgroup.subtree_control")
	if enabled, err := os.ReadFile(control); err == nil && hasControllers(enabled) {
		return nil
	}
	leaf := filepath.Join(own, serviceCgroup)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(leaf) // fails if another service is in it
		}
	}()
	self := strconv.Itoa(os.Getpid())
	if err := g.write(filepath.Join(leaf, "cgroup.procs"), self); err != nil {
		return err
	}
	if err := g.write(control, "+memory +pids"); err != nil {
		return errors.Join(err, g.write(filepath.Join(own, "cgroup.procs"), self))
	}
	return nil
}

// detectV1 uses the service's own cgroups v1.
func (g *cgroups) detectV1(proc string) bool {
	memory := cgroupDirV1(proc, "memory")
	if memory == "" {
		return false
	}
	g.version = 1
	// The first set of controllers that works, from all to memory alone.
	for _, controllers := range [][]string{{"memory", "pids", "cpu"}, {"memory", "pids"}, {"memory", "cpu"}, {"memory"}} {
		g.controllers, g.folders = controllers, nil
		for _, controller := range controllers {
			g.folders = append(g.folders, cgroupDirV1(proc, controller))
		}
		if slices.Contains(g.folders, "") {
			continue
		}
		g.sweep(proc)
		if g.probe() == nil {
			return true
		}
	}
	g.version, g.folders, g.controllers = 0, nil, nil
	return false
}

// controls reports whether programs' cgroups have a controller.
func (g *cgroups) controls(controller string) bool { return slices.Contains(g.controllers, controller) }

// probe creates a cgroup and removes it.
func (g *cgroups) probe() error {
	cgroup, err := g.create(Limits{}.WithDefaults())
	if err != nil {
		return err
	}
	cgroup.remove()
	return nil
}

// A cgroup is the cgroup of one program.
type cgroup struct {
	of      *cgroups
	folders []string // as in cgroups
}

// create returns nil if the service may not create cgroups. With cgroups, its error means that the
// program must not run: it would have no limit.
func (g *cgroups) create(l Limits) (none *cgroup, err error) {
	if g.version == 0 {
		return none, nil // a machine without cgroups is not an error
	}
	// A folder that was made before a failure is removed again.
	cgroup := &cgroup{of: g}
	defer func() {
		if err != nil {
			cgroup.remove()
		}
	}()
	name := fmt.Sprintf("%s-%x", g.owner, rand.Uint64())
	for _, parent := range g.folders {
		folder := filepath.Join(parent, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		cgroup.folders = append(cgroup.folders, folder)
	}
	for _, s := range cgroup.settings(l) {
		err := g.write(s.file, s.text)
		// A control file that this kernel lacks cannot be created, hence the errors.
		missing := errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EOPNOTSUPP)
		if err != nil && (!s.optional || !missing) {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	return cgroup, nil
}

// setting is a value for a control file.
type setting struct {
	file, text string
	optional   bool // the file is not on every kernel
}

// bwrapProcesses are the sandbox's own: bwrap, and the init of the PID namespace.
const bwrapProcesses = 2

// settings are the limits as control files. Swap is not allowed: swapped pages
// would not count against the memory limit.
func (c *cgroup) settings(l Limits) []setting {
	memory, processes := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Processes+bwrapProcesses)
	quota := strconv.FormatInt(max(cpuPeriod/100, int64(l.CPUs*cpuPeriod)), 10) // the kernel refuses less
	in := func(controller, name string) string {
		if c.of.version == 2 {
			return filepath.Join(c.folders[0], name)
		}
		return filepath.Join(c.folders[slices.Index(c.of.controllers, controller)], name)
	}
	all := []setting{
		{in("memory", "memory.limit_in_bytes"), memory, false},
		// Memory and swap together; must be set after, and not be below, the former.
		{in("memory", "memory.memsw.limit_in_bytes"), memory, true},
		// TCP and UDP buffers are accounted separately, and only if limited: they get an eighth on
		// top.
		{in("memory", "memory.kmem.tcp.limit_in_bytes"), strconv.FormatInt(l.Memory/8, 10), true},
	}
	if c.of.version == 2 {
		all = []setting{
			{in("memory", "memory.max"), memory, false},
			{in("memory", "memory.swap.max"), "0", true},
			{in("memory", "memory.oom.group"), "1", true},
		}
	}
	if c.of.controls("pids") {
		all = append(all, setting{in("pids", "pids.max"), processes, false})
	}
	switch {
	case l.CPUs <= 0 || !c.of.controls("cpu"):
	case c.of.version == 2:
		all = append(all, setting{in("cpu", "cpu.max"), quota + " " + strconv.Itoa(cpuPeriod), false})
	default:
		all = append(all,
			setting{in("cpu", "cpu.cfs_period_us"), strconv.Itoa(cpuPeriod), true},
			setting{in("cpu", "cpu.cfs_quota_us"), quota, true})
	}
	return all
}

// cpuPeriod is the time in which a program gets its share of processor time, in
// microseconds. It is the kernel's default.
const cpuPeriod = 100_000

// add moves a process into the cgroup. Its children will be in it, too.
func (c *cgroup) add(pid int) error {
	for _, folder := range c.folders {
		if err := c.of.write(filepath.Join(folder, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	return nil
}

// oomKilled reports whether the OOM killer has killed a process in the cgroup,
// and whether that was for the cgroup's own limit and not for one above it.
func (c *cgroup) oomKilled() (killed, own bool) {
	if c.of.version == 2 {
		return c.read("memory.events", "oom_kill ") > 0, c.read("memory.events", "oom ") > 0
	}
	// cgroup v1 doesn't say whose limit it was: a peak close to its own limit decides.
	const nearly = 1 << 20
	return c.read("memory.oom_control", "oom_kill ") > 0,
		c.read("memory.max_usage_in_bytes", "") > c.read("memory.limit_in_bytes", "")-nearly
}

// peakMemory is the most memory that was charged to the cgroup, or 0 if the kernel does
// not tell it (cgroup v2 before Linux 5.19).
func (c *cgroup) peakMemory() int64 {
	if c.of.version == 2 {
		return c.read("memory.peak", "")
	}
	return c.read("memory.max_usage_in_bytes", "")
}

// read returns the number in a line of a control file; see field.
func (c *cgroup) read(name, line string) int64 {
	content, _ := os.ReadFile(filepath.Join(c.folders[0], name)) // 0 for a missing file
	return field(content, line)
}

// remove kills the processes in the cgroup and deletes it. The kernel keeps it busy for a moment
// after its last process.
func (c *cgroup) remove() {
	for _, folder := range slices.Backward(c.folders) {
		for end := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
			err := os.Remove(folder)
			if err == nil || errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
				break // swept at the next start of the service
			}
			c.of.killAll(folder)
		}
	}
}

// killAll kills the processes in a cgroup.
func (g *cgroups) killAll(folder string) {
	if g.version == 2 && g.write(filepath.Join(folder, "cgroup.kill"), "1") == nil {
		return
	}
	list, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs")) // it may be gone
	for _, field := range strings.Fields(string(list)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// sweep removes the cgroups of services that were killed.
func (g *cgroups) sweep(proc string) {
	for _, parent := range g.folders {
		entries, _ := os.ReadDir(parent) // probe reports the error
		for _, e := range entries {
			owner, ok := strings.CutPrefix(e.Name(), cgroupPrefix)
			fields := strings.Split(owner, "-") // pid, start time, random
			alive := len(fields) >= 2 && startTime(proc, fields[0]) == fields[1]
			if !ok || !e.IsDir() || alive {
				continue
			}
			left := &cgroup{of: g, folders: []string{filepath.Join(parent, e.Name())}}
			left.remove()
		}
	}
}

// startTime is when a process was started, in clock ticks since boot, or "".
// With the PID it identifies a process: PIDs are reused.
func startTime(proc, pid string) string {
	const started = 19 // index after the name in brackets; field 22 of proc_pid_stat(5)
	stat, err := os.ReadFile(filepath.Join(proc, pid, "stat"))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= started {
		return ""
	}
	return fields[started]
}

// cgroupDirV2 is the folder of this process's cgroup v2, or "".
func cgroupDirV2(proc string) string {
	return cgroupDir(proc, "", func(kind, _ string) bool { return kind == "cgroup2" })
}

// cgroupDirV1 is the folder of its cgroup v1 for a controller, or "".
func cgroupDirV1(proc, controller string) string {
	return cgroupDir(proc, controller, func(kind, options string) bool {
		return kind == "cgroup" && slices.Contains(strings.Split(options, ","), controller)
	})
}

// cgroupDir finds this process's cgroup in a hierarchy: /proc/self/cgroup has
// its path in the hierarchy ("4:memory:/a/b"), and /proc/self/mountinfo has where
// the hierarchy, or a part of it, is mounted ("35 31 0:32 /a /mnt rw - cgroup
// cgroup rw,memory").
func cgroupDir(proc, controller string, is func(kind, options string) bool) string {
	own, _ := os.ReadFile(filepath.Join(proc, "self", "cgroup")) // no file, no cgroup
	at, found := "", false
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), controller) {
			at, found = fields[2], !strings.HasPrefix(fields[2], "/..") // above the mount of a container
		}
	}
	mounts, _ := os.ReadFile(filepath.Join(proc, "self", "mountinfo"))
	for line := range strings.Lines(string(mounts)) {
		mount, super, ok := strings.Cut(line, " - ")
		where, what := strings.Fields(mount), strings.Fields(super)
		if !found || !ok || len(where) < 5 || len(what) < 3 || !is(what[0], what[2]) {
			continue
		}
		root, point := where[3], where[4]
		if root == "/" {
			root = ""
		}
		if rest, ok := strings.CutPrefix(at, root); ok && (rest == "" || strings.HasPrefix(rest, "/")) {
			return filepath.Join(point, rest)
		}
	}
	return ""
}
