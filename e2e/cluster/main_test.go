// Package cluster_test runs the real binary the way operators do: several
// processes behind a load balancer, restarted and killed under load, with the
// database, the bucket, the disk or the clock failing beside them. Clients
// remember what was acknowledged to them; at the end all of it must be there,
// once.
//
// Everything is short by default. The long forms are bounded by flags:
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
	torment  = flag.Duration("for", 0, "how long each torture goes on; 0 stands for the few seconds of a test")
	database = flag.String("database", "", "only tortures on this database: sqlite or postgres")
	seed     = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the moments at which something is killed") //nolint:gosec // any will do
)

// binary is the program, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	// Most of them wait for other processes, so more of them than there are
	// processors can run at once; but a long torture has the machine to itself.
	if *torment == 0 {
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
		// Another user than ours may run it.
		err = os.Chmod(dir, 0o755) //nolint:gosec // it holds the binary only
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
