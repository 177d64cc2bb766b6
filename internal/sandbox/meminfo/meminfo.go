// Package meminfo reads how much memory the machine has, of Linux's /proc. It owns no
// tables.
package meminfo

import (
	"bytes"
	"os"
	"strconv"
)

// reserve is the least memory that the machine must have available; on small machines
// it is a twentieth of the total.
const reserve = 256 << 20

// Info is the memory of the machine, in bytes.
type Info struct {
	Total, Available int64
	// Unattributed is the memory that no process's RSS contains: shared memory,
	// and what the kernel holds. (It is not Total minus the sum of the rest: the
	// kernel keeps hundreds of megabytes of free pages that do not count as free.)
	Unattributed int64
}

// Read returns the memory of the machine now.
func Read() Info {
	info, _ := os.ReadFile("/proc/meminfo") // all 0 without it
	kib := func(names ...string) (sum int64) {
		for _, name := range names {
			sum += Field(info, name) << 10
		}
		return sum
	}
	return Info{
		Total: kib("MemTotal:"), Available: kib("MemAvailable:"),
		Unattributed: kib("Shmem:", "SUnreclaim:", "PageTables:", "VmallocUsed:"),
	}
}

// ExplainsLoss reports whether a program that uses so much memory now took most
// of what the machine has lost since m.
func (m Info) ExplainsLoss(memory int64, now Info) bool {
	lost := m.Available - now.Available
	return !m.IsShort() && lost > 0 && 2*memory > lost
}

// IsShort reports whether the machine is about to run out of memory.
func (m Info) IsShort() bool { return m.Total > 0 && m.Available < min(reserve, m.Total/20) }

// Field returns the first number in the line of a file that begins with
// name, e.g. Field(meminfo, "MemTotal:").
func Field(file []byte, name string) int64 {
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
