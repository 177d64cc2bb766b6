package improve

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/suites"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// A Query is a trigger query of an improve run.
type Query struct {
	CaseID      string             `json:"case_id"`
	Text        string             `json:"query"`
	Expectation suites.Expectation `json:"expectation"`
	// HeldOut queries choose the winner. No writer sees them.
	HeldOut bool `json:"held_out,omitempty"`
}

// minQueries is the least number of queries for an improve run. It is so few only
// to try the feature: the Wilson interval shows how little they prove.
const minQueries = 4

// queriesOf returns the suite's trigger queries that can be run, without
// duplicates: the same text on both sides of the split would leak the holdout to
// the writer. Too few queries are a Conflict.
func queriesOf(suite suites.Suite) (queries []Query, leftOut int, err error) {
	if issues := suite.KindIssues(); len(issues) > 0 {
		return nil, 0, fault.New(fault.Conflict, "Eval suite cannot be run: %s", suites.IssueText(issues))
	}
	known, wanted := map[string]bool{}, 0
	for _, c := range suite.Cases {
		normalized := text.OneLine(strings.ToLower(c.Query))
		if c.Kind != suites.TriggerQuery || !c.Runnable() || known[normalized] {
			leftOut++
			continue
		}
		known[normalized] = true
		if c.Expectation == suites.ShouldTrigger {
			wanted++
		}
		queries = append(queries, Query{CaseID: c.ID, Text: c.Query, Expectation: c.Expectation})
	}
	switch {
	case len(queries) < minQueries:
		return nil, 0, fault.New(fault.Conflict,
			"An improve run needs at least %d different trigger queries that can be run, and the suite has %d: "+
				"add more cases of the kind trigger_query", minQueries, len(queries))
	case wanted < 2:
		return nil, 0, fault.New(fault.Conflict,
			"An improve run needs at least 2 trigger queries with the expectation should_trigger, "+
				"one to write from and one to hold out, and the suite has %d", wanted)
	}
	return queries, leftOut, nil
}

// Check returns a Conflict that says why the suite's queries are not enough for
// an improve run, or nil. The suite must have its cases.
func Check(suite suites.Suite) error {
	_, _, err := queriesOf(suite)
	return err
}

// splitQueries holds out a share of the queries. The split is stratified: the
// share is the same for each expectation, at least one query and never all of
// them. It is the same for the same seed, so that a retry repeats it.
func splitQueries(queries []Query, holdout float64, seed int64) []Query {
	split := slices.Clone(queries)
	order := rand.New(rand.NewPCG(uint64(seed), 1))
	for _, e := range []suites.Expectation{suites.ShouldTrigger, suites.ShouldNotTrigger} {
		var stratum []int
		for i, q := range split {
			if q.Expectation == e {
				stratum = append(stratum, i)
			}
		}
		order.Shuffle(len(stratum), func(i, k int) { stratum[i], stratum[k] = stratum[k], stratum[i] })
		if len(stratum) < 2 {
			continue // a single query is for the writer: without it, nothing is written
		}
		n := int(math.Round(float64(len(stratum)) * holdout))
		for _, i := range stratum[:min(len(stratum)-1, max(1, n))] {
			split[i].HeldOut = true
		}
	}
	return split
}
