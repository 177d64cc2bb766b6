package runs_test

import (
	"flag"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
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
	answer = runstest.Answer
	object = runstest.Object
)

const (
	suitesPath = runstest.SuitesPath
	runsPath   = "/api/v1/eval-runs/"
)

var (
	with          = runstest.With
	list          = runstest.List
	plain         = runstest.Plain
	judged        = runstest.Judged
	deterministic = runstest.Deterministic
	trigger       = runstest.Trigger
	avoid         = runstest.Avoid
	exact         = runstest.Exact
	eventually    = runstest.Eventually
)

type world struct{ *runstest.World }

// client starts runs.
type client struct {
	*runstest.Client
	w *world
}

func newWorld(t *testing.T, db *store.DB, set ...func(*runstest.World)) *world {
	t.Helper()
	return &world{runstest.New(t, db, set...)}
}

func (w *world) org(name string) *client {
	w.T.Helper()
	return &client{w.Org(name), w}
}

// in returns the client for a subtest.
func (c *client) in(t *testing.T) *client { return &client{c.In(t), c.w} }

// scripted makes a scripted model the judge.
func scripted(server *judgetest.Server) func(*runstest.World) {
	return runstest.Scripted(server, time.Minute)
}

// contentHash is that of the entry's current version.
func (c *client) contentHash() string {
	c.T.Helper()
	_, v, err := c.w.Registry.Find(c.T.Context(), c.Org.ID, c.Entry(), "")
	if err != nil {
		c.T.Fatal(err)
	}
	return v.ContentHash
}

// start runs a suite on the entry, with more fields in pairs.
func (c *client) start(suite object, pairs ...any) object {
	c.T.Helper()
	body := with(object{"subject": object{"entry_id": c.Entry()}}, pairs...)
	return c.Post(suitesPath+"/"+suite["id"].(string)+"/runs", body).Want(http.StatusAccepted).Field("run")
}

// await waits for the end of a run.
func (c *client) await(run object) object {
	c.T.Helper()
	eventually(c.T, "the end of the run", func() bool {
		return c.w.Count("eval_runs WHERE id = $1 AND finished_at IS NOT NULL", run["id"]) == 1
	})
	return c.Get(runsPath + run["id"].(string)).Want(http.StatusOK).Field("run")
}

// finished runs a suite to its end.
func (c *client) finished(suite object, pairs ...any) object {
	c.T.Helper()
	return c.await(c.start(suite, pairs...))
}

// verdicts are those of the cases, in their order.
func verdicts(t *testing.T, run object) (all []any) {
	t.Helper()
	for _, c := range list(t, run, "cases") {
		all = append(all, c["verdict"])
	}
	return all
}
