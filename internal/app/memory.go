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

// LimitMemory sets the soft memory limit of the Go runtime from the process's
// cgroup, unless GOMEMLIMIT is set, and returns the limit; 0 if there is none.
func LimitMemory() int64 {
	limit := debug.SetMemoryLimit(-1) // the value of GOMEMLIMIT
	if limit < math.MaxInt64 {
		return limit
	}
	limit = cgroupLimit("/")
	if limit == 0 {
		return 0
	}
	// A tenth is left for what the garbage collector does not count, e.g. files in a
	// tmpfs, and for garbage that is made faster than it is collected.
	limit = limit / 10 * 9
	debug.SetMemoryLimit(limit)
	return limit
}

// cgroupLimit returns the lowest memory limit of the process's cgroup and its
// ancestors, of cgroup v2 or v1; 0 if there is none. Root is "/" except in tests.
func cgroupLimit(root string) int64 {
	own, _ := os.ReadFile(path.Join(root, "proc/self/cgroup")) // not on every system
	limit := int64(math.MaxInt64)
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[1] == "": // cgroup v2
			limit = min(limit, lowestLimit(path.Join(root, "sys/fs/cgroup"), fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			limit = min(limit, lowestLimit(path.Join(root, "sys/fs/cgroup/memory"), fields[2], "memory.limit_in_bytes"))
		}
	}
	const none = 1 << 60 // cgroup v1 has about 2^63 for "no limit"
	if limit >= none {
		return 0
	}
	return limit
}

// lowestLimit reads the limits of a cgroup and all its ancestors. In a container
// the path may be that of the host, and only the root exists.
func lowestLimit(mount, cgroup, file string) int64 {
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

// budgets bound the memory of all requests together. They are separate, so that
// an operation does not wait for requests that still send their bodies, and
// anonymous clients do not use up the memory for customers.
type budgets struct {
	bodies       *httpapi.Budget
	publicBodies *httpapi.Budget // of requests without a key
	work         *httpapi.Budget // of operations that unpack or compare archives
}

// maxRequestMemory is the sum of the budgets without a lower memory limit.
const maxRequestMemory = 1 << 30

// newBudgets gives half of the process's memory to requests. The rest is for the
// process itself, its caches and jobs, and garbage.
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
