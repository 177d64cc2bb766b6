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
	monitorInterval = 50 * time.Millisecond
	// ticks per second of the kernel's clock (USER_HZ), on every architecture.
	ticks = 100
)

// machineLimit is the memory of the machine, or of the service. It says nothing
// about the program, which is killed all the same.
const machineLimit Limit = "machine"

// A monitor enforces the limits that the kernel cannot enforce for a whole
// sandbox: CPU time and the disk, and memory and processes where there is no
// cgroup. It checks them at intervals.
type monitor struct {
	limits    Limits
	cgroup    *cgroup     // nil where the service may create none
	others    func() bool // whether other programs run as well
	before    meminfo     // when the program started
	leastTCP  int64       // the least memory of the machine's TCP sockets since
	initPID   int         // PID 1 of the sandbox as seen from outside
	root      string      // its root folder as seen from outside, or "" before it runs
	scratch   []string    // scratch folders, as seen from inside
	mounts    []Mount
	nextCheck time.Time // of the disk
	peak      int64
}

// check returns the limit that is exceeded, or "".
func (w *monitor) check() Limit {
	if w.root == "" || !w.hasOwnRoot() {
		return ""
	}
	if over := w.checkProcesses(); over != "" {
		return over
	}
	if now := time.Now(); now.After(w.nextCheck) {
		over := exceedsDisk(w.mounts, w.limits) || w.exceedsScratch()
		w.nextCheck = time.Now().Add(max(diskInterval, diskPauseFactor*time.Since(now)))
		if over {
			return DiskLimit
		}
	}
	return ""
}

// hasOwnRoot reports whether bwrap has changed to the sandbox's root folder.
// Before that, its /proc is the machine's. It cannot change back.
func (w *monitor) hasOwnRoot() bool {
	var machine, sandbox unix.Stat_t
	if unix.Stat("/", &machine) != nil || unix.Stat(w.root, &sandbox) != nil {
		return false
	}
	return machine.Dev != sandbox.Dev || machine.Ino != sandbox.Ino
}

func (w *monitor) checkProcesses() Limit {
	pids := w.processes()
	var all processUsage
	for _, pid := range pids {
		all.add(pid)
	}
	over := w.checkMemory(all.memory, pids)
	switch {
	case over != "":
		return over
	case all.cpu > w.limits.CPU:
		return CPULimit
	// The kernel refuses a fork over the limit where it enforces it; this is for the others.
	case all.threads > w.limits.Processes+1: // PID 1 is the sandbox's own
		return ProcessesLimit
	}
	return ""
}

// checkMemory returns MemoryLimit if the program uses too much memory, and
// machineLimit if too much is used but possibly by another program. A cgroup
// counts everything. Without one, the memory that the kernel holds for the
// program is added up as far as /proc shows it, and the rest is estimated from
// what the machine has lost.
func (w *monitor) checkMemory(memory int64, pids []string) Limit {
	if over := w.oomKilled(); over != "" {
		return over
	}
	now := readMeminfo()
	// Memory that others free must not hide memory that this program allocates.
	w.before.unattributed = min(w.before.unattributed, now.unattributed)
	kernel, tcp, grown := w.netlinkQueues(), int64(0), int64(0)
	if w.cgroup != nil {
		// cgroup v1 does not count TCP and UDP buffers as memory, and every
		// socket gets some whatever their limit.
		kernel += w.cgroup.read("memory.kmem.tcp.usage_in_bytes", "")
	} else {
		var sockets int64
		sockets, tcp = w.socketBuffers()
		kernel += sockets + pageTables(pids)
		grown = now.unattributed - w.before.unattributed
	}
	if memory+kernel+tcp > w.limits.Memory { // RSS counts shared pages several times
		memory = proportionalMemory(pids)
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
	case w.before.explainsLoss(memory, now), alone && w.before.explainsLoss(memory+grown, now):
		return MemoryLimit
	}
	return machineLimit
}

// oomKilled returns the limit for which the OOM killer has killed a process of
// the program, or "".
func (w *monitor) oomKilled() Limit {
	if w.cgroup == nil {
		return ""
	}
	switch killed, own := w.cgroup.oomKilled(); {
	case killed && own:
		return MemoryLimit
	case killed:
		return machineLimit
	}
	return ""
}

// processes returns the /proc folders of the sandbox's processes. The /proc of
// its PID namespace shows no others.
func (w *monitor) processes() []string {
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

// processUsage is the sum over several processes.
type processUsage struct {
	memory  int64
	cpu     time.Duration
	threads int
}

// add reads the stat file of a process, see proc_pid_stat(5). The time of
// children that were waited for counts.
func (u *processUsage) add(process string) {
	// Indexes after the name in brackets, which may contain spaces.
	const userTime, systemTime, childUserTime, childSystemTime, threads, pages = 11, 12, 13, 14, 17, 21
	stat, err := os.ReadFile(process + "/stat")
	if err != nil {
		return // it has just ended
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= pages {
		return
	}
	field := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64) // the kernel writes numbers
		return n
	}
	u.memory += field(pages) * int64(os.Getpagesize())
	u.threads += int(field(threads))
	cpu := field(userTime) + field(systemTime) + field(childUserTime) + field(childSystemTime)
	u.cpu += time.Duration(cpu) * time.Second / ticks
}

// proportionalMemory adds up the proportional set size (PSS) of processes, in
// which shared pages are divided among them. It costs the kernel more than RSS.
func proportionalMemory(processes []string) (memory int64) {
	for _, process := range processes {
		rollup, _ := os.ReadFile(process + "/smaps_rollup") // it may have just ended
		memory += field(rollup, "Pss:") << 10
	}
	return memory
}

// pageTables adds up the page tables of processes. They can be larger than the
// memory itself.
func pageTables(processes []string) (memory int64) {
	for _, process := range processes {
		status, _ := os.ReadFile(process + "/status") // it may have just ended
		memory += field(status, "VmPTE:") << 10
	}
	return memory
}

// socketBuffers is the most that the buffers of the program's sockets can hold,
// since /proc does not show how full they are. TCP sockets can hold more: their
// memory is known only for the whole machine, and its growth counts if the
// program has any.
func (w *monitor) socketBuffers() (all, tcp int64) {
	stat := w.socketStat()
	now := tcpMemory(stat)
	w.leastTCP = min(w.leastTCP, now)
	if field(stat, "TCP: inuse ") > 0 {
		tcp = now - w.leastTCP
	}
	return field(stat, "sockets: used ") * socketBuffer(), tcp
}

func (w *monitor) socketStat() []byte {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/sockstat", w.initPID)) // it may have just ended
	return stat
}

// tcpMemory is the memory of all TCP sockets: "TCP: inuse 0 orphan 0 tw 0 alloc 2 mem 7".
func tcpMemory(stat []byte) int64 {
	for line := range bytes.Lines(stat) {
		if _, pages, ok := bytes.Cut(line, []byte(" mem ")); ok && bytes.HasPrefix(line, []byte("TCP:")) {
			return field(pages, "") * int64(os.Getpagesize())
		}
	}
	return 0
}

// netlinkQueues is the memory of netlink responses that the program has not
// read. Not even a cgroup counts it.
func (w *monitor) netlinkQueues() (memory int64) {
	const receiveQueue = 4 // "sk Eth Pid Groups Rmem Wmem ..."
	// The process may have just ended.
	sockets, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/netlink", w.initPID))
	for line := range bytes.Lines(sockets) {
		if fields := bytes.Fields(line); len(fields) > receiveQueue {
			n, _ := strconv.ParseInt(string(fields[receiveQueue]), 10, 64) // 0 for the heading
			memory += n
		}
	}
	return memory
}

// socketBuffer is the default size of a socket's buffer. Requests for more are
// ignored by the seccomp filter.
var socketBuffer = sync.OnceValue(func() int64 {
	buffer := int64(212_992) // the kernel's own default
	for _, file := range []string{"/proc/sys/net/core/wmem_default", "/proc/sys/net/core/rmem_default"} {
		if content, err := os.ReadFile(file); err == nil {
			buffer = max(buffer, field(content, ""))
		}
	}
	return buffer
})

// noise is how much unattributed memory can grow without any program's doing.
const noise = 1 << 30

// exceedsScratch reports whether a scratch folder contains too many files. The
// kernel enforces the limit on its bytes, the size of the tmpfs.
func (w *monitor) exceedsScratch() bool {
	for _, dir := range w.scratch {
		var stat unix.Statfs_t
		if unix.Statfs(w.root+dir, &stat) == nil && int64(stat.Files)-int64(stat.Ffree) > int64(w.limits.Files) {
			return true
		}
	}
	return false
}

// MachineMemory is the memory of the machine in bytes, or 0 if it is unknown.
func MachineMemory() int64 { return readMeminfo().total }
