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

// groups makes the cgroups of programs. A cgroup is the only thing that counts
// the memory that the kernel holds for a program: socket buffers, pipes, page
// tables. Its zero value has none: the limits are kept by looking then.
type groups struct {
	// version is that of the kernel's interface, 1 or 2, or 0 where the service
	// may not make cgroups; then missing says why and what to do.
	version int
	missing string
	// folders are those in which cgroups are made. Version 1 has one for each
	// controller: memory, and pids where it can be had.
	folders []string

	owner string // how the names of this process's cgroups begin
	write func(file, text string) error
}

const (
	// groupPrefix is how the names of all cgroups of programs begin.
	groupPrefix = "whetstone-run-"
	// serviceGroup is where the service puts itself on version 2: a cgroup that
	// hands controllers down to others must not hold processes.
	serviceGroup = "whetstone-service"
)

// findGroups looks for a place where this process may make cgroups: a subtree
// of version 2 that was delegated to it, else version 1. proc is /proc.
func findGroups(proc string, write func(file, text string) error) *groups {
	g := &groups{owner: groupPrefix + ownName(proc, os.Getpid()), write: write}
	second, missing := g.findSecond(proc)
	if second {
		return g
	}
	if g.findFirst(proc) {
		return g
	}
	g.missing = missing
	return g
}

// String names what keeps the limit on memory, for the log.
func (g *groups) String() string {
	if g.version == 0 {
		return "rlimits and a watch, for there is no cgroup: " + g.missing
	}
	return fmt.Sprintf("cgroup v%d", g.version)
}

// writeFile writes to a file of a cgroup, which is a command to the kernel.
func writeFile(file, text string) error { return os.WriteFile(file, []byte(text), 0o600) }

const (
	delegate  = "start the service by a systemd unit with Delegate=memory pids (deploy/systemd has it)"
	container = "in a container, cgroups must be mounted writable"
)

// findSecond uses the service's own cgroup of version 2. It returns why it
// cannot.
func (g *groups) findSecond(proc string) (ok bool, missing string) {
	own := ownGroup2(proc)
	if own == "" {
		return false, "this machine has no cgroups; mount cgroup2 at /sys/fs/cgroup"
	}
	if filepath.Base(own) == serviceGroup { // another sandbox of this process was here
		own = filepath.Dir(own)
	}
	controllers, err := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	if err != nil || !hasControllers(controllers) {
		return false, "the service's cgroup has no controllers for memory and processes; " + delegate
	}
	if err := g.enable(own); err != nil {
		return false, notEnabled(err)
	}
	g.version, g.folders = 2, []string{own}
	g.sweep(proc)
	if err := g.try(); err != nil {
		g.version, g.folders = 0, nil
		return false, notEnabled(err)
	}
	return true, ""
}

func notEnabled(err error) string {
	switch {
	case errors.Is(err, syscall.EBUSY):
		return "other processes share the service's cgroup; " + delegate
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "the service may not make cgroups; " + delegate + "; " + container
	}
	return fmt.Sprintf("cgroups cannot be made: %s; %s", err, delegate)
}

func hasControllers(list []byte) bool {
	all := strings.Fields(string(list))
	return slices.Contains(all, "memory") && slices.Contains(all, "pids")
}

// enable hands the controllers down to the cgroups in own. The kernel refuses
// that with EBUSY while processes are in it, so this one moves to a cgroup
// beside those of the programs, and back if others are there, too.
func (g *groups) enable(own string) (err error) {
	control := filepath.Join(own, "cgroup.subtree_control")
	if enabled, err := os.ReadFile(control); err == nil && hasControllers(enabled) {
		return nil
	}
	leaf := filepath.Join(own, serviceGroup)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(leaf) // another service may be in it
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

// findFirst uses the service's own cgroups of version 1.
func (g *groups) findFirst(proc string) bool {
	memory := ownGroup1(proc, "memory")
	if memory == "" {
		return false
	}
	g.version = 1
	for _, folders := range [][]string{{memory, ownGroup1(proc, "pids")}, {memory}} {
		if g.folders = folders; slices.Contains(folders, "") {
			continue
		}
		g.sweep(proc)
		if g.try() == nil {
			return true
		}
	}
	g.version, g.folders = 0, nil
	return false
}

// try makes a cgroup and removes it.
func (g *groups) try() error {
	group, err := g.make(Limits{}.WithDefaults())
	if err != nil {
		return err
	}
	group.remove()
	return nil
}

// A group is the cgroup of one program.
type group struct {
	of      *groups
	folders []string // as in groups
}

// make returns nil if there are no cgroups.
func (g *groups) make(l Limits) (_ *group, err error) {
	if g.version == 0 {
		return nil, nil //nolint:nilnil // a machine without cgroups is no error
	}
	group := &group{of: g}
	defer func() {
		if err != nil {
			group.remove()
		}
	}()
	name := fmt.Sprintf("%s-%x", g.owner, rand.Uint64())
	for _, parent := range g.folders {
		folder := filepath.Join(parent, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		group.folders = append(group.folders, folder)
	}
	for _, s := range group.settings(l) {
		err := g.write(s.file, s.text)
		if err != nil && (!s.optional || !missingFile(err)) {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
	}
	return group, nil
}

// missingFile reports whether a cgroup has no such file: they cannot be made.
func missingFile(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EOPNOTSUPP)
}

type setting struct {
	file, text string
	optional   bool // not on every kernel
}

// bwrapProcesses are the sandbox's own: bwrap, and the first process in it.
const bwrapProcesses = 2

// settings are the limits as the kernel reads them. There is no swap: what is
// swapped out would be beyond the limit.
func (c *group) settings(l Limits) []setting {
	memory, processes := strconv.FormatInt(l.Memory, 10), strconv.Itoa(l.Processes+bwrapProcesses)
	in := func(i int, name string) string { return filepath.Join(c.folders[i], name) }
	if c.of.version == 2 {
		return []setting{
			{in(0, "memory.max"), memory, false},
			{in(0, "memory.swap.max"), "0", true},
			{in(0, "memory.oom.group"), "1", true},
			{in(0, "pids.max"), processes, false},
		}
	}
	all := []setting{
		{in(0, "memory.limit_in_bytes"), memory, false},
		// The second is memory and swap together, and never below the first.
		{in(0, "memory.memsw.limit_in_bytes"), memory, true},
		// The buffers of TCP and UDP are counted apart, and only if limited.
		{in(0, "memory.kmem.tcp.limit_in_bytes"), strconv.FormatInt(l.Memory/8, 10), true},
	}
	if len(c.folders) > 1 {
		all = append(all, setting{in(1, "pids.max"), processes, false})
	}
	return all
}

// add puts a process into the cgroup, where all that it starts will be.
func (c *group) add(pid int) error {
	for _, folder := range c.folders {
		if err := c.of.write(filepath.Join(folder, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
	}
	return nil
}

// killed reports whether the kernel ended a process in the cgroup because memory
// ran out, and whether that was for the cgroup's own limit and not for one above.
func (c *group) killed() (ended, own bool) {
	if c.of.version == 2 {
		return c.read("memory.events", "oom_kill ") > 0, c.read("memory.events", "oom ") > 0
	}
	const nearly = 1 << 20
	return c.read("memory.oom_control", "oom_kill ") > 0,
		c.read("memory.max_usage_in_bytes", "") > c.read("memory.limit_in_bytes", "")-nearly
}

// uncounted is what version 1 does not count as memory: the buffers of TCP and
// UDP, of which every socket gets some whatever the limit on them.
func (c *group) uncounted() int64 { return c.read("memory.kmem.tcp.usage_in_bytes", "") }

// read returns the number in a line of a file of the cgroup; see number.
func (c *group) read(name, line string) int64 {
	content, _ := os.ReadFile(filepath.Join(c.folders[0], name)) // a missing one says 0
	return number(content, line)
}

// remove ends what is left in the cgroup and takes it away. The kernel holds it
// for a moment after its last process.
func (c *group) remove() {
	for _, folder := range slices.Backward(c.folders) {
		for end := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
			err := os.Remove(folder)
			if err == nil || errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
				break // the next start of the service sweeps
			}
			c.of.empty(folder)
		}
	}
}

// empty ends the processes in a cgroup.
func (g *groups) empty(folder string) {
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

// sweep removes the cgroups that a service left that was killed.
func (g *groups) sweep(proc string) {
	for _, parent := range g.folders {
		entries, _ := os.ReadDir(parent) // the next try tells
		for _, e := range entries {
			owner, ok := strings.CutPrefix(e.Name(), groupPrefix)
			if !ok || !e.IsDir() || isAlive(proc, owner) {
				continue
			}
			left := &group{of: g, folders: []string{filepath.Join(parent, e.Name())}}
			left.remove()
		}
	}
}

// ownName tells a process from all that had its number before: "4711-123456".
func ownName(proc string, pid int) string {
	return fmt.Sprintf("%d-%s", pid, startTime(proc, strconv.Itoa(pid)))
}

// isAlive reports whether the process runs that a cgroup's name begins with.
func isAlive(proc, name string) bool {
	fields := strings.Split(name, "-")
	return len(fields) >= 2 && startTime(proc, fields[0]) == fields[1]
}

// startTime is when a process was started, in the kernel's ticks, or "".
func startTime(proc, pid string) string {
	const started = 19 // after the name in brackets
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

// ownGroup2 is the folder of this process's cgroup of version 2, or "".
func ownGroup2(proc string) string {
	return ownFolder(proc, "", func(kind, _ string) bool { return kind == "cgroup2" })
}

// ownGroup1 is the folder of its cgroup of version 1 for a controller, or "".
func ownGroup1(proc, controller string) string {
	return ownFolder(proc, controller, func(kind, options string) bool {
		return kind == "cgroup" && slices.Contains(strings.Split(options, ","), controller)
	})
}

// ownFolder finds this process in a hierarchy: its path in it stands in the file
// cgroup ("4:memory:/a/b"), and where the hierarchy is mounted, which may be from
// a path downwards, in mountinfo ("35 31 0:32 /a /mnt rw - cgroup cgroup rw,memory").
func ownFolder(proc, controller string, is func(kind, options string) bool) string {
	own, _ := os.ReadFile(filepath.Join(proc, "self", "cgroup")) // missing: none is found
	at, found := "", false
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), controller) {
			at, found = fields[2], !strings.HasPrefix(fields[2], "/..") // else it is above what is mounted
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
