package app

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Memory is how much the process may take, in bytes.
type Memory struct {
	Runtime  int64 // the Go runtime; 0 if there is no limit
	Database int64 // the caches of SQLite, which the runtime does not count; 0 for as much as they like
}

// LimitMemory shares the memory limit of the process's cgroup out. It sets the soft limit
// of the Go runtime, unless GOMEMLIMIT is set, which is then the limit of the runtime. Without
// it, the garbage collector lets the heap double, and the kernel kills the process. It is
// called once, before anything large is allocated.
func LimitMemory(d config.Database) Memory {
	m := shareMemory(cgroupLimit("/"), strings.HasPrefix(d.URL(), "sqlite:"))
	if given := debug.SetMemoryLimit(-1); given < math.MaxInt64 { // the value of GOMEMLIMIT
		m.Runtime = given
	} else if m.Runtime > 0 {
		debug.SetMemoryLimit(m.Runtime)
	}
	return m
}

// sqliteBeside is what SQLite takes beside its caches: the prepared statements and the schema
// of each connection, and values that are written or read, such as the 25 MB of a webhook.
// Small containers leave a quarter of their limit instead.
const sqliteBeside = 128 << 20

// shareMemory leaves headroom of a tenth for memory of the cgroup that is neither the
// runtime's nor SQLite's, e.g. a tmpfs and socket buffers, and for garbage that is
// allocated faster than it is collected.
func shareMemory(limit int64, sqlite bool) Memory {
	m := Memory{Runtime: limit / 10 * 9}
	// SQLite allocates outside of Go's heap, which GOMEMLIMIT doesn't see.
	if sqlite {
		m.Database = min(limit/8, store.MaxCache)
		m.Runtime -= m.Database + min(limit/4, sqliteBeside)
	}
	return m
}

// cgroupLimit returns the lowest memory limit of the process's cgroup and its
// ancestors, of cgroup v2 or v1; 0 if there is none. Root is "/" except in tests.
func cgroupLimit(root string) int64 {
	// A line is "ID:CONTROLLERS:PATH", e.g. "0::/system.slice/whetstone.service".
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

// budgets bound the memory of all requests together. They are separate, so that an operation
// does not wait for requests that still send their bodies, and anonymous clients do not use up
// the memory for customers. A request that finds no room waits for others, and then gets 503;
// see httpapi.Budget.
type budgets struct {
	bodies       *httpapi.Budget
	publicBodies *httpapi.Budget // of requests without a key
	work         *httpapi.Budget // of operations that unpack or compare archives
}

// maxRequestMemory is the sum of the budgets without a lower memory limit.
const maxRequestMemory = 1 << 30

// newBudgets gives half of the runtime's memory to requests. The rest is for the
// process itself, its caches and jobs, and garbage.
func newBudgets(limit int64) budgets {
	all := int64(maxRequestMemory)
	if limit > 0 {
		all = min(all, limit/2)
	}
	return budgets{
		// The second number is the reserve, of which only small requests use.
		bodies:       httpapi.NewBudget(all/2, all/8),
		publicBodies: httpapi.NewBudget(all/8, all/32),
		work:         httpapi.NewBudget(all/8*3, 0),
	}
}
