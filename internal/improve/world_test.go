package improve_test

import (
	"flag"
	"html"
	"net/http"
	"os"
	"regexp"
	"strings"
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
	suitesPath  = runstest.SuitesPath
	improvePath = "/api/v1/improve-runs"
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

// client starts improve runs.
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

// improvable is a suite of queries in words that the skill's description lacks,
// two of them in each, so that every split shows them, with some queries that
// the skill must not take.
func improvable() object {
	cases := []object{
		{"case_kind": "llm_rubric", "output": "a", "rubric": "is good"},
		trigger("read the INVOICE  from our supplier"),
	}
	for _, query := range []string{
		"read the invoice from our supplier", "book this supplier invoice", "what does the supplier invoice say in total", "put the supplier invoice amounts into the ledger",
		"which amounts does the supplier want by invoice", "amounts of every supplier invoice as a list", "sum up the invoice of each supplier", "check the ledger against the supplier invoice",
		"enter the invoice from the supplier into the ledger", "find the invoice of this supplier",
	} {
		cases = append(cases, trigger(query))
	}
	for _, query := range []string{
		"what is the weather tomorrow", "write a poem about cats",
		"translate this letter", "scale the recipe for six", "water my plant",
	} {
		cases = append(cases, avoid(query))
	}
	return judged(cases...)
}

// improve starts an improve run on the entry, with more fields in pairs.
func (c *client) improve(suite object, pairs ...any) object {
	c.T.Helper()
	body := with(object{"entry_id": c.Entry(), "suite_id": suite["id"]}, pairs...)
	return c.Post(improvePath, body).Want(http.StatusAccepted).Field("improve_run")
}

func (c *client) improved(run object) object {
	c.T.Helper()
	return c.Get(improvePath + "/" + run["id"].(string)).Want(http.StatusOK).Field("improve_run")
}

// awaitImprove waits for the end of an improve run.
func (c *client) awaitImprove(run object) object {
	c.T.Helper()
	eventually(c.T, "the end of the improve run", func() bool {
		return c.w.Count("improve_runs WHERE id = $1 AND finished_at IS NOT NULL", run["id"]) == 1
	})
	return c.improved(run)
}

var testedDescription = regexp.MustCompile(`<name>pdf</name><description>(.*?)</description>`)

// byWord is a model that loads pdf for queries whose last word is in its
// description.
func byWord(r judgetest.Request) judgetest.Reply {
	return judgetest.Model{Route: func(query string, _ []string) string {
		match := testedDescription.FindStringSubmatch(r.System)
		words := strings.Fields(query)
		if match != nil && strings.Contains(html.UnescapeString(match[1]), words[len(words)-1]) {
			return "pdf"
		}
		return ""
	}}.Respond(r)
}

// writing is a model that routes by words and writes these descriptions in
// turn.
func writing(t *testing.T, texts ...string) *judgetest.Server {
	t.Helper()
	next := make(chan string, len(texts))
	for _, text := range texts {
		next <- text
	}
	return judgetest.New(t, func(r judgetest.Request) judgetest.Reply {
		if isRewrite(r) {
			return judgetest.Model{Rewrite: func(string) string { return <-next }}.Respond(r)
		}
		return byWord(r)
	})
}

func isRewrite(r judgetest.Request) bool { return !strings.Contains(r.System, "<available_skills>") }

// colours is a suite whose queries byWord decides, 5 of each expectation.
func colours() object {
	var cases []object
	for _, n := range []string{"one", "two", "three", "four", "five"} {
		cases = append(cases, trigger(n+" red"), avoid(n+" blue"))
	}
	return judged(cases...)
}

// iterating is a world whose iterations are made by step.
func iterating(t *testing.T, db *store.DB, server *judgetest.Server) (*world, *client) {
	t.Helper()
	w := newWorld(t, db, scripted(server))
	return w, w.org("acme")
}
