// Package cluster_test runs the real binary the way operators do: several
// processes behind a load balancer, restarted and killed under load, while the
// database, the bucket, the disk or the clock fails. Clients remember what was
// acknowledged to them; at the end all of it must be stored, once.
//
// All tests are short by default. Flags run the long forms:
//
//	make torture ARGS="-for 5m -database postgres"
package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

var (
	tortureTime = flag.Duration("for", 0, "how long each torture test runs; 0 means a few seconds")
	database    = flag.String("database", "", "only torture tests on this database: sqlite or postgres")
	seed        = flag.Int64("seed", time.Now().UnixNano(), "of the moments at which something is killed")
)

// binary is the program, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	// Most tests wait for other processes, so more of them than there are
	// processors can run in parallel. A long torture test runs alone.
	if *tortureTime == 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(runWithBinary(m))
}

func runWithBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "whetstone-cluster")
	if err == nil {
		// A test may run it as another user.
		err = os.Chmod(dir, 0o755) // it holds the binary only
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary, err = servertest.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
