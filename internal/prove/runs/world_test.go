package runs_test

import (
	"flag"
	"os"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/agents/agentstest"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
)

// TestMain lets more tests run at once than there are processors: they mostly
// wait for databases and each other.
func TestMain(m *testing.M) {
	agentstest.Main()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

type object = apptest.Object

const (
	suitesPath = runstest.SuitesPath
	runsPath   = runstest.RunsPath
)

var (
	judged        = runstest.Judged
	deterministic = runstest.Deterministic
	trigger       = runstest.Trigger
	avoid         = runstest.Avoid
	exact         = runstest.Exact
	with          = apptest.With
	without       = apptest.Without
)

// verdicts are those of the cases, in their order.
func verdicts(t *testing.T, run object) (all []any) {
	t.Helper()
	for i, c := range apptest.List(t, run, "cases") {
		all = append(all, c["verdict"])
		if c["verdict"] != "error" {
			continue
		}
		for _, trial := range apptest.List(t, c, "trials") {
			t.Logf("case %d, %v %v: error %v", i, trial["variant"], trial["n"], trial["error"])
		}
	}
	return all
}
