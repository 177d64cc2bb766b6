package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// A watch looks after the limits that the kernel cannot keep for a whole
// sandbox: memory, processor time and the disk.
type watch struct {
	limits Limits
	root   string   // the sandbox's root folder as seen from here, once it runs
	own    []string // scratch folders, inside
	mounts []Mount
	disk   time.Time
	peak   int64
}

func newWatch(spec Spec) *watch {
	return &watch{limits: spec.Limits, own: scratchFolders(spec), mounts: spec.Mounts}
}

func (w *watch) begin(pid int) {
	w.root = fmt.Sprintf("/proc/%d/root", pid)
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
	memory := all.memory
	if memory > w.limits.Memory { // what is shared was counted several times
		memory = sharesOf(pids)
	}
	w.peak = max(w.peak, memory)
	switch {
	case memory > w.limits.Memory || machineIsShort():
		return MemoryLimit
	case all.cpu > w.limits.CPU:
		return CPULimit
	case all.threads > w.limits.Processes+1: // the sandbox's own first process
		return ProcessesLimit
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
		memory += kilobytes(rollup, "Pss:") << 10
	}
	return memory
}

// machineIsShort reports whether the machine is about to run out of memory. It
// catches what hides in the kernel and belongs to no process.
func machineIsShort() bool {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return false
	}
	total, available := kilobytes(info, "MemTotal:")<<10, kilobytes(info, "MemAvailable:")<<10
	return total > 0 && available < min(reserve, total/20)
}

// kilobytes returns the number in the line of a file that begins with name.
func kilobytes(file []byte, name string) int64 {
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
