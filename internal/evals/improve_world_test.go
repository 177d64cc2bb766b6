package evals_test

import (
	"context"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/evals"
	"github.com/whetstone-dev/whetstone/internal/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/proposals"
	"github.com/whetstone-dev/whetstone/internal/store"
)

const improvePath = "/api/v1/improve-runs"

// proposer hands winners to proposals as internal/app does.
type proposer struct{ *proposals.Service }

func (p proposer) Propose(ctx context.Context, tx *store.Tx, i evals.Improvement) (string, error) {
	return p.Service.Propose(ctx, tx, proposals.Draft{
		OrgID: i.OrgID, SkillName: i.SkillName, Finding: "improve_run " + i.RunID, Type: proposals.Description,
		CurrentValue: &i.Current, ProposedValue: &i.Proposed, Reason: i.Reason, Confidence: &i.Confidence,
		PassRateBefore: &i.Before, ProjectedPassRate: &i.After, Evidence: i.Evidence, ProposedBy: "improve_run",
	})
}

func proposing(s *evals.Service) { s.Proposer = proposer{&proposals.Service{DB: s.DB, Jobs: s.Jobs}} }

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
	for _, query := range []string{"what is the weather tomorrow", "write a poem about cats", "translate this letter", "scale the recipe for six", "water my plant"} {
		cases = append(cases, avoid(query))
	}
	return judged(cases...)
}

// improve starts an improve run on the entry, with more fields in pairs.
func (c *client) improve(suite object, pairs ...any) object {
	c.t.Helper()
	body := with(object{"entry_id": entryID, "suite_id": suite["id"]}, pairs...)
	return c.post(improvePath, body).want(http.StatusAccepted).improveRun()
}

// improveRun reads the improve run in the body.
func (a answer) improveRun() object {
	a.t.Helper()
	run, ok := a.object()["improve_run"].(object)
	if !ok {
		a.t.Fatalf("%s: no improve run in %s", a.what, a.body)
	}
	return run
}

func (c *client) improved(run object) object {
	c.t.Helper()
	return c.get(improvePath + "/" + run["id"].(string)).want(http.StatusOK).improveRun()
}

// awaitImprove waits for the end of an improve run.
func (c *client) awaitImprove(run object) object {
	c.t.Helper()
	eventually(c.t, "the end of the improve run", func() bool {
		return c.w.count("improve_runs WHERE id = $1 AND finished_at IS NOT NULL", run["id"]) == 1
	})
	return c.improved(run)
}

var testedDescription = regexp.MustCompile(`<name>pdf</name><description>(.*?)</description>`)

// byWord is a model that loads pdf for queries whose last word stands in its
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

// writing is a model that routes by words and writes what it is told, one
// after the other.
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

// colours is a suite whose queries byWord decides: 5 of each expectation.
func colours() object {
	var cases []object
	for _, n := range []string{"one", "two", "three", "four", "five"} {
		cases = append(cases, trigger(n+" red"), avoid(n+" blue"))
	}
	return judged(cases...)
}

// iterating is a world whose improve runs go on by hand.
func iterating(t *testing.T, db *store.DB, server *judgetest.Server) (*world, *client) {
	t.Helper()
	w := newWorld(t, db, scripted(t, server, time.Minute), proposing)
	return w, w.org("acme")
}
