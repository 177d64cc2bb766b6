package grades

import (
	"context"
	"fmt"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// The named outcomes of a session. An outcome that is not known does not count: no
// report of an interruption is no proof that there was none.
const (
	toolErrors     = "tool_errors" // whether many tool calls failed
	interrupted    = sessions.Interrupted
	userCorrection = sessions.UserCorrection
	testsPassed    = sessions.TestsPassed
	commitSurvived = sessions.CommitSurvived
)

// weights are how much the outcomes count. What a person did weighs more than what
// a tool said: agents recover from failed calls.
var weights = map[string]int64{toolErrors: 1, interrupted: 2, testsPassed: 2, userCorrection: 3, commitSurvived: 3}

// maxToolErrors is the smallest share of failed tool calls that is a bad outcome.
const maxToolErrors = 0.25

// outcomesOf returns the known outcomes of a session and the pass rate that they
// give: the weight of the good ones by that of all. It reports false if none is
// known.
func outcomesOf(of sessions.Session, signals []sessions.Signal) (found []evidence, passRate int64, ok bool) {
	add := func(name string, good bool) { found = append(found, evidence{Expectation: name, Passed: good}) }
	if known := of.Figures(); known.ToolCalls != nil && known.ToolErrors != nil && *known.ToolCalls > 0 {
		add(toolErrors, float64(*known.ToolErrors) < maxToolErrors*float64(*known.ToolCalls))
	}
	for _, name := range []string{interrupted, userCorrection} {
		if slices.ContainsFunc(signals, func(g sessions.Signal) bool { return g.Kind == sessions.Error && g.Name == name }) {
			add(name, false)
		}
	}
	for _, g := range signals {
		if _, known := weights[g.Name]; known && g.Kind == sessions.Graded {
			add(g.Name, g.OK)
		}
	}
	var good, all int64
	for _, e := range found {
		if all += weights[e.Expectation]; e.Passed {
			good += weights[e.Expectation]
		}
	}
	if all == 0 {
		return nil, 0, false
	}
	return found, (2*good*billion + all) / (2 * all), true
}

// outcomeFailures returns why the outcomes of a session are bad: the tools that
// failed, and what else happened.
func outcomeFailures(found []evidence, signals []sessions.Signal) (all []failure) {
	for _, e := range found {
		switch {
		case e.Passed:
		case e.Expectation == toolErrors:
			for _, g := range signals {
				if g.Kind == sessions.Tool {
					name := g.Name
					if name == "" {
						name = "a tool"
					}
					all = append(all, failure{byTool + name, fmt.Sprintf("Calls of %s failed", name)})
				}
			}
		case e.Expectation == interrupted:
			all = append(all, failure{byOutcome + interrupted, "A person interrupted the agent"})
		case e.Expectation == userCorrection:
			all = append(all, failure{byOutcome + userCorrection, "A person corrected the agent"})
		case e.Expectation == testsPassed:
			all = append(all, failure{byOutcome + "tests_failed", "Tests failed in the end"})
		case e.Expectation == commitSurvived:
			all = append(all, failure{byOutcome + "commit_lost", "A commit was reverted or dropped"})
		}
	}
	return all
}

// gradeByOutcome stores the grade of a session by its outcomes, if it is another
// than before.
func (s *Service) gradeByOutcome(
	ctx context.Context, w waiting, skillName string, g Grader, of sessions.Session, signals []sessions.Signal,
) error {
	id := gradeID(w.orgID, "", basis.Outcome, w.sessionHash, w.skillID)
	found, rate, ok := outcomesOf(of, signals)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		at, err := lockedNow(ctx, tx, w.userID, id)
		if err != nil {
			return err
		}
		before, err := evidenceOf(ctx, tx, id)
		if err == nil && ok { // outcomes don't stand in for a verdict that was not usable
			var unusable bool
			unusable, err = isUnusable(ctx, tx, w)
			ok = !unusable
		}
		switch {
		case err != nil:
			return err
		case !ok && before == nil, ok && slices.Equal(before, found):
			return nil
		case !ok:
			return s.withdraw(ctx, tx, w.orgID, w.userID, id)
		}
		made := grade{
			id: id, orgID: w.orgID, userID: w.userID, sessionHash: w.sessionHash, skillID: w.skillID, skillName: skillName,
			basis: basis.Outcome, passRate: rate, passed: reaches(rate, g.Threshold), evidence: found, at: at,
			sessionAt: of.LastAt,
		}
		if !made.passed {
			made.failures = outcomeFailures(found, signals)
		}
		return s.record(ctx, tx, made)
	})
}

// reaches reports whether a pass rate is at least a threshold. A share may miss it by
// rounding: 0.7 is not 7/10 in binary.
func reaches(passRate int64, threshold float64) bool {
	return float64(passRate) >= (threshold-1e-9)*billion
}
