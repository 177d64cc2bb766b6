package improve_test

import (
	"flag"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
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

const improvePath = runstest.ImprovePath

var (
	judged        = runstest.Judged
	deterministic = runstest.Deterministic
	trigger       = runstest.Trigger
	avoid         = runstest.Avoid
	exact         = runstest.Exact
	with          = apptest.With
	without       = apptest.Without
)

// improvable is a suite of queries in words that the skill's description lacks,
// two of them in each, so that every split shows them, with some queries that
// the skill must not take.
func improvable() object {
	cases := []object{
		{"case_kind": "llm_rubric", "output": "a", "rubric": "is good"},
		trigger("read the INVOICE  from our supplier"),
	}
	for _, query := range []string{
		"read the invoice from our supplier", "book this supplier invoice",
		"what does the supplier invoice say in total", "put the supplier invoice amounts into the ledger",
		"which amounts does the supplier want by invoice", "amounts of every supplier invoice as a list",
		"sum up the invoice of each supplier", "check the ledger against the supplier invoice",
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
