package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	watchInterval = 50 * time.Millisecond
	// reserve is the memory that a machine is never left without, or a
	// twentieth of what it has.
	reserve = 256 << 20
	// ticks of the kernel's clock in a second, on every architecture.
	ticks = 100
)

// machineLimit is the memory of the machine, or of the service. That it is gone
// says nothing about the program, which is ended all the same.
const machineLimit Limit = "machine"

// A watch looks after the limits that the kernel cannot keep for a whole
// sandbox: processor time and the disk, and memory where there is no cgroup.
type watch struct {
	limits   Limits
	group    *group      // nil where there are none
	others   func() bool // whether other programs run as well
	before   machine     // when the program started
	leastTCP int64       // that the TCP sockets of the machine held since
	first    int         // the sandbox's first process, once it runs
	root     string      // its root folder as seen from here
	own      []string    // scratch folders, inside
	mounts   []Mount
	disk     time.Time
	peak     int64
}

func newWatch(spec Spec) *watch {
	return &watch{limits: spec.Limits, own: scratchFolders(spec), mounts: spec.Mounts}
}

func (w *watch) begin(pid int) {
	w.first, w.root = pid, fmt.Sprintf("/proc/%d/root", pid)
	w.leastTCP = tcpMemory(w.socketStat())
	w.disk = time.Now().Add(diskInterval)
}

// look returns the limit that is passed, or "".
func (w *watch) look() Limit {
	if w.root == "" || w.isOutside() {
		return ""
	}
	if over := w.lookAtProcesses(); over != "" {
		return over
	}
	if now := time.Now(); now.After(w.disk) {
		over := mountsOver(w.mounts, w.limits) || w.scratchOver()
		w.disk = time.Now().Add(max(diskInterval, diskShare*time.Since(now)))
		if over {
			return DiskLimit
		}
	}
	return ""
}

// isOutside reports whether bwrap still has the machine's root folder: what it
// sees there is not the sandbox's. Once it has left, it cannot come back.
func (w *watch) isOutside() bool {
	var own, its unix.Stat_t
	return unix.Stat("/", &own) != nil || unix.Stat(w.root, &its) != nil || own.Dev == its.Dev && own.Ino == its.Ino
}

func (w *watch) lookAtProcesses() Limit {
	pids := w.processes()
	var all usageOf
	for _, pid := range pids {
		all.add(pid)
	}
	over := w.lookAtMemory(all.memory, pids)
	switch {
	case over != "":
		return over
	case all.cpu > w.limits.CPU:
		return CPULimit
	case all.threads > w.limits.Processes+1: // the sandbox's own first process
		return ProcessesLimit
	}
	return ""
}

// lookAtMemory returns MemoryLimit if the program takes too much, and
// machineLimit if it cannot be said that it is this one. A cgroup counts
// everything; without one, what the kernel holds for the program is added up as
// far as it can be seen, and the rest shows in what the machine loses.
func (w *watch) lookAtMemory(memory int64, pids []string) Limit {
	if over := w.killed(); over != "" {
		return over
	}
	now := readMachine()
	// What others give back must not hide what this program takes.
	w.before.hidden = min(w.before.hidden, now.hidden)
	kernel, tcp, grown := w.netlinkQueues(), int64(0), int64(0)
	if w.group != nil {
		kernel += w.group.uncounted()
	} else {
		var sockets int64
		sockets, tcp = w.socketBuffers()
		kernel += sockets + pageTables(pids)
		grown = now.hidden - w.before.hidden
	}
	if memory+kernel+tcp > w.limits.Memory { // what is shared was counted several times
		memory = sharesOf(pids)
	}
	w.peak = max(w.peak, memory)
	memory += kernel
	alone := !w.others()
	unclear := memory+tcp > w.limits.Memory || grown > max(w.limits.Memory, noise)
	switch {
	case memory > w.limits.Memory, unclear && alone:
		return MemoryLimit
	case unclear:
		return machineLimit
	case !now.isShort():
		return ""
	case w.before.lostTo(memory, now), alone && w.before.lostTo(memory+grown, now):
		return MemoryLimit
	}
	return machineLimit
}

// killed says for which limit the kernel ended a process of the program.
func (w *watch) killed() Limit {
	if w.group == nil {
		return ""
	}
	switch ended, own := w.group.killed(); {
	case ended && own:
		return MemoryLimit
	case ended:
		return machineLimit
	}
	return ""
}

// processes returns the folders in /proc of the sandbox's processes: its own
// /proc shows no others.
func (w *watch) processes() []string {
	entries, err := os.ReadDir(w.root + "/proc")
	if err != nil {
		return nil // it has just ended
	}
	var all []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, filepath.Join(w.root, "proc", e.Name()))
		}
	}
	return all
}

type usageOf struct {
	memory  int64
	cpu     time.Duration
	threads int
}

// add reads the stat file of a process, whose third and following fields stand
// after the name in brackets. The time of children that were waited for counts.
func (u *usageOf) add(process string) {
	const userTime, systemTime, childUserTime, childSystemTime, threads, pages = 11, 12, 13, 14, 17, 21
	stat, err := os.ReadFile(process + "/stat")
	if err != nil {
		return // it has just ended
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= pages {
		return
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64) // the kernel writes numbers
		return n
	}
	u.memory += number(pages) * int64(os.Getpagesize())
	u.threads += int(number(threads))
	u.cpu += time.Duration(number(userTime)+number(systemTime)+number(childUserTime)+number(childSystemTime)) * time.Second / ticks
}

// sharesOf adds up the memory of processes, what several share being divided
// among them. It costs the kernel more than looking at their stat files.
func sharesOf(processes []string) (memory int64) {
	for _, process := range processes {
		rollup, _ := os.ReadFile(process + "/smaps_rollup") // it may have just ended
		memory += number(rollup, "Pss:") << 10
	}
	return memory
}

// pageTables adds up what the kernel needs to know where the memory of
// processes is. It can be more than the memory.
func pageTables(processes []string) (memory int64) {
	for _, process := range processes {
		status, _ := os.ReadFile(process + "/status") // it may have just ended
		memory += number(status, "VmPTE:") << 10
	}
	return memory
}

// socketBuffers is the most that the program's sockets can hold, for the kernel
// does not tell how full they are. Those of TCP can hold more: what they do is
// known of all on the machine together, and counts if the program has any.
func (w *watch) socketBuffers() (all, tcp int64) {
	stat := w.socketStat()
	now := tcpMemory(stat)
	w.leastTCP = min(w.leastTCP, now)
	if number(stat, "TCP: inuse ") > 0 {
		tcp = now - w.leastTCP
	}
	return number(stat, "sockets: used ") * socketBuffer(), tcp
}

func (w *watch) socketStat() []byte {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/sockstat", w.first)) // it may have just ended
	return stat
}

// tcpMemory reads what all TCP sockets hold: "TCP: inuse 0 orphan 0 tw 0 alloc 2 mem 7".
func tcpMemory(stat []byte) int64 {
	for line := range bytes.Lines(stat) {
		if _, pages, ok := bytes.Cut(line, []byte(" mem ")); ok && bytes.HasPrefix(line, []byte("TCP:")) {
			return number(pages, "") * int64(os.Getpagesize())
		}
	}
	return 0
}

// netlinkQueues is what the kernel has answered to the program and it has not
// read. Not even a cgroup counts that.
func (w *watch) netlinkQueues() (memory int64) {
	const queued = 4                                                        // "sk Eth Pid Groups Rmem Wmem ..."
	sockets, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/netlink", w.first)) // it may have just ended
	for line := range bytes.Lines(sockets) {
		if fields := bytes.Fields(line); len(fields) > queued {
			n, _ := strconv.ParseInt(string(fields[queued]), 10, 64) // the head is no number
			memory += n
		}
	}
	return memory
}

// socketBuffer is what a socket holds unless it asks for more, which the filter
// of system calls ignores.
var socketBuffer = sync.OnceValue(func() int64 {
	buffer := int64(212_992) // the kernel's own default
	for _, file := range []string{"/proc/sys/net/core/wmem_default", "/proc/sys/net/core/rmem_default"} {
		if content, err := os.ReadFile(file); err == nil {
			buffer = max(buffer, number(content, ""))
		}
	}
	return buffer
})

// A machine is how much memory this one has, in bytes.
type machine struct {
	total, available int64
	// hidden is what is in no process's own size: shared memory, and what the
	// kernel holds. (It is not what is missing in the sum of all: the kernel has
	// hundreds of megabytes of free pages that it does not count as free.)
	hidden int64
}

// noise is by how much hidden memory can grow without any program's doing.
const noise = 1 << 30

func readMachine() machine {
	info, _ := os.ReadFile("/proc/meminfo") // missing: nothing can be said
	kib := func(names ...string) (sum int64) {
		for _, name := range names {
			sum += number(info, name) << 10
		}
		return sum
	}
	return machine{
		total: kib("MemTotal:"), available: kib("MemAvailable:"),
		hidden: kib("Shmem:", "SUnreclaim:", "PageTables:", "VmallocUsed:"),
	}
}

// lostTo reports whether a program that now has so much memory took most of what
// the machine has lost since it had this much.
func (m machine) lostTo(memory int64, now machine) bool {
	lost := m.available - now.available
	return !m.isShort() && lost > 0 && 2*memory > lost
}

// isShort reports whether the machine is about to run out of memory.
func (m machine) isShort() bool { return m.total > 0 && m.available < min(reserve, m.total/20) }

// number returns the first number in the line of a file that begins with name.
func number(file []byte, name string) int64 {
	for line := range bytes.Lines(file) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		if fields := bytes.Fields(rest); len(fields) > 0 {
			n, _ := strconv.ParseInt(string(fields[0]), 10, 64) // the kernel writes numbers
			return n
		}
	}
	return 0
}

// scratchOver reports whether a scratch folder holds too many files; the
// kernel keeps it from holding too many bytes.
func (w *watch) scratchOver() bool {
	for _, dir := range w.own {
		var stat unix.Statfs_t
		if unix.Statfs(w.root+dir, &stat) == nil && int64(stat.Files)-int64(stat.Ffree) > int64(w.limits.Files) {
			return true
		}
	}
	return false
}
