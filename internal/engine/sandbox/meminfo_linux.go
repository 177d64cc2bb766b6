package sandbox

import (
	"bytes"
	"os"
	"strconv"
)

// memoryReserve is the least memory that the machine must have available; on small machines
// it is a twentieth of the total.
const memoryReserve = 256 << 20

// meminfo is the memory of the machine, in bytes, of Linux's /proc.
type meminfo struct {
	total, available int64
	// unattributed is the memory that no process's RSS contains: shared memory,
	// and what the kernel holds. (It is not total minus the sum of the rest: the
	// kernel keeps hundreds of megabytes of free pages that do not count as free.)
	unattributed int64
}

// readMeminfo returns the memory of the machine now.
func readMeminfo() meminfo {
	info, _ := os.ReadFile("/proc/meminfo") // all 0 without it
	kib := func(names ...string) (sum int64) {
		for _, name := range names {
			sum += field(info, name) << 10
		}
		return sum
	}
	return meminfo{
		total: kib("MemTotal:"), available: kib("MemAvailable:"),
		unattributed: kib("Shmem:", "SUnreclaim:", "PageTables:", "VmallocUsed:"),
	}
}

// explainsLoss reports whether a program that uses so much memory now took most
// of what the machine has lost since m.
func (m meminfo) explainsLoss(memory int64, now meminfo) bool {
	lost := m.available - now.available
	return !m.isShort() && lost > 0 && 2*memory > lost
}

// isShort reports whether the machine is about to run out of memory.
func (m meminfo) isShort() bool { return m.total > 0 && m.available < min(memoryReserve, m.total/20) }

// field returns the first number in the line of a file that begins with
// name, e.g. field(meminfo, "MemTotal:").
func field(file []byte, name string) int64 {
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
