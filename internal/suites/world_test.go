package suites_test

import (
	"flag"
	"os"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/store"
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
	world  = runstest.World
	client = runstest.Client
	answer = runstest.Answer
	object = runstest.Object
)

const suitesPath = runstest.SuitesPath

var (
	with          = runstest.With
	list          = runstest.List
	plain         = runstest.Plain
	judged        = runstest.Judged
	deterministic = runstest.Deterministic
	trigger       = runstest.Trigger
)

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	return runstest.New(t, db)
}
