package app

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

// LimitMemory has the garbage collector keep the process within the memory of
// its cgroup, unless GOMEMLIMIT says otherwise, and returns the limit; 0 if
// there is none. It is for the whole process.
func LimitMemory() int64 {
	limit := debug.SetMemoryLimit(-1) // what GOMEMLIMIT says
	if limit < math.MaxInt64 {
		return limit
	}
	limit = cgroupLimit("/")
	if limit == 0 {
		return 0
	}
	// The rest is for what the collector does not see: stacks of C, the page
	// cache of files in a tmpfs, and garbage that comes faster than it goes.
	limit = limit / 10 * 9
	debug.SetMemoryLimit(limit)
	return limit
}

// cgroupLimit is the least memory limit of the process's own cgroup and those
// above it, of version 2 or 1; 0 if there is none. Files are below root.
func cgroupLimit(root string) int64 {
	own, _ := os.ReadFile(path.Join(root, "proc/self/cgroup")) // not on every system
	limit := int64(math.MaxInt64)
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[1] == "": // version 2
			limit = min(limit, leastLimit(path.Join(root, "sys/fs/cgroup"), fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			limit = min(limit, leastLimit(path.Join(root, "sys/fs/cgroup/memory"), fields[2], "memory.limit_in_bytes"))
		}
	}
	const none = 1 << 60 // version 1 writes about 2^63 for "no limit"
	if limit >= none {
		return 0
	}
	return limit
}

// leastLimit looks at a cgroup and all above it. In a container the path may be
// that of the host, and only the top is there.
func leastLimit(mount, cgroup, file string) int64 {
	limit := int64(math.MaxInt64)
	for {
		text, err := os.ReadFile(path.Join(mount, cgroup, file))
		if err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // or "max"
				limit = min(limit, n)
			}
		}
		if cgroup == "/" || cgroup == "." || cgroup == "" {
			return limit
		}
		cgroup = path.Dir(cgroup)
	}
}

// budgets are the memory that requests may take together, by what they take it
// for. They are apart, so that a request that has read its body waits for none
// of those that still read theirs, and strangers take none from customers.
type budgets struct {
	bodies       *httpapi.Budget
	publicBodies *httpapi.Budget // of requests that need no key
	work         *httpapi.Budget // of operations that unpack or compare archives
}

// maxRequestMemory is what requests take together where the process may have
// more, or any amount.
const maxRequestMemory = 1 << 30

// newBudgets gives half of the process's memory to requests. The rest is for
// the process itself, its caches and jobs, and for garbage.
func newBudgets(limit int64) budgets {
	all := int64(maxRequestMemory)
	if limit > 0 {
		all = min(all, limit/2)
	}
	return budgets{
		bodies:       httpapi.NewBudget(all/2, all/8),
		publicBodies: httpapi.NewBudget(all/8, all/32),
		work:         httpapi.NewBudget(all/8*3, 0),
	}
}
