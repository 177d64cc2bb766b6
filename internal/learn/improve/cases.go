package improve

import (
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// minQueries is the least number of queries for a run of the description. It is so
// few only to try the feature: the proof shows how little they prove.
const minQueries = 4

// least returns the smallest parts of a run. With the description, trigger queries are cheap and
// small sets common, so even one case per part is allowed.
func least(target edit.Target) search.Least {
	if target == edit.Description {
		return search.Least{Train: 1, Selection: 1, Proof: 1}
	}
	return search.Least{Train: 8, Selection: 4, Proof: 4}
}

// trialsPerCase is how often each case is tried with each candidate: three times
// where all are trigger queries, whose catalogue has another order in each trial,
// and once where outputs are expensive.
func trialsPerCase(cases []suites.Case) int {
	for _, c := range cases {
		if c.Kind != suites.TriggerQuery {
			return 1
		}
	}
	return 3
}

// takes reports whether the outcome of a case can depend on what the target
// changes: trigger queries on the description, outputs on the body.
func takes(target edit.Target, c suites.Case) bool {
	switch {
	case c.Kind == suites.TriggerQuery:
		return target != edit.Body
	case c.Subject.Output != nil:
		return false
	}
	return target != edit.Description
}

// casesOf returns the suite's cases that a run of the target can use, without
// duplicates: the same words in two parts would tell the writer of the holdout. The first of
// several duplicates is taken, in the order of the suite.
func casesOf(suite suites.Suite, target edit.Target) (taken []suites.Case, leftOut int, err error) {
	if issues := suite.KindIssues(); len(issues) > 0 {
		return nil, 0, fault.New(fault.Conflict, "Eval suite cannot be run: %s", suites.IssueText(issues))
	}
	known := map[string]bool{}
	for _, c := range suite.Cases {
		asked := caseAsked(c)
		if !takes(target, c) || !c.Runnable() || known[asked] {
			leftOut++
			continue
		}
		known[asked] = true
		taken = append(taken, c)
	}
	return taken, leftOut, nil
}

// enough returns a Conflict if there are too few cases for a run of the target.
// Retired are the digests of those that were part of a proof too often. The smallest parts must be
// filled with fresh cases: a retired one has been looked at too often to prove anything.
func enough(target edit.Target, cases []suites.Case, retired map[string]bool) error {
	if target == edit.Description {
		wanted := 0
		for _, c := range cases {
			if c.Expectation == suites.ShouldTrigger {
				wanted++
			}
		}
		switch {
		case len(cases) < minQueries:
			return fault.New(fault.Conflict,
				"An improve run needs at least %d different trigger queries that can be run, and the suite has %d: "+
					"add more cases of the kind trigger_query", minQueries, len(cases))
		case wanted < 2:
			return fault.New(fault.Conflict,
				"An improve run needs at least 2 trigger queries with the expectation should_trigger, "+
					"one to write from and one to hold out, and the suite has %d", wanted)
		}
	}
	smallest := least(target)
	held := smallest.Selection + smallest.Proof
	if missing := smallest.Train + held - len(cases); missing > 0 {
		return fault.New(fault.Conflict,
			"An improve run of the %s needs at least %d cases (%d to write from, %d to choose by, %d to prove on) whose outcome "+
				"depends on it, and the suite has %d: %d are missing", named(target),
			smallest.Train+held, smallest.Train, smallest.Selection, smallest.Proof, len(cases), missing)
	}
	fresh := 0
	for _, c := range cases {
		if !retired[caseDigest(c)] {
			fresh++
		}
	}
	if fresh < held {
		return fault.New(fault.Conflict,
			"All but %d of the suite's cases were part of a proof %d times, and tell nothing new: %d new cases are missing",
			fresh, search.MaxProofs, held-fresh)
	}
	return nil
}

func named(target edit.Target) string {
	if target == edit.Both {
		return "description and the body"
	}
	return string(target)
}

// Check returns a Conflict that says why the suite's cases are not enough for an
// improve run of the target, or nil. The suite must have its cases. It ignores retired cases, which
// only a run of the suite knows.
func Check(suite suites.Suite, target edit.Target) error {
	cases, _, err := casesOf(suite, target)
	if err != nil {
		return err
	}
	return enough(target, cases, nil)
}

// searchCases are the cases as the search sees them.
func searchCases(cases []Case, retired map[string]bool, failing func(id string) bool) []search.Case {
	all := make([]search.Case, len(cases))
	for i, c := range cases {
		all[i] = search.Case{ID: c.ID, Group: c.Group, Retired: retired[c.Digest], Failing: failing(c.ID)}
	}
	return all
}
