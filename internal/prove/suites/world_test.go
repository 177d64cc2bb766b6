package suites_test

import (
	"flag"
	"os"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestMain lets more tests run at once than there are processors: they mostly
// wait for databases and each other.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

type (
	client = runstest.Client
	object = apptest.Object
)

const suitesPath = runstest.SuitesPath

var (
	judged        = runstest.Judged
	deterministic = runstest.Deterministic
	trigger       = runstest.Trigger
	with          = apptest.With
	without       = apptest.Without
)
