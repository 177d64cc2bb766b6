package unattended

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// night looks at the organisation's skills one after another, and reports whether it
// has to wait for an improve run. What it did is stored before it goes on, so that it
// can be called again at any point. Each skill is looked at once a night; its row says when that
// was.
func (s *Service) night(ctx context.Context, orgID string, now time.Time) (wait bool, err error) {
	defer fault.Wrap(&err, "night of organisation %s", orgID)
	for {
		next, err := nextPolicy(ctx, s.DB, orgID, dateOf(now))
		if err != nil || len(next) == 0 {
			return false, err
		}
		if next[0].RunID != nil {
			wait, err = s.conclude(ctx, next[0])
		} else {
			wait, err = s.look(ctx, next[0], now)
		}
		if err != nil || wait {
			return wait, err
		}
	}
}

// look starts an improve run of a skill, or notes why there is none. It waits while
// another one of the organisation is under way. One run at a time: two would compete for the
// judge's rate limit and make each other look slow.
func (s *Service) look(ctx context.Context, p policyOf, now time.Time) (wait bool, err error) {
	running, err := runsUnderWay(ctx, s.DB, p.orgID)
	if err != nil || running > 0 {
		return running > 0, err
	}
	run, why, err := s.plan(ctx, p, now)
	if err == nil && why == "" {
		// The start and the claim of the night are one transaction; see plan.
		_, err = s.Improve.Start(ctx, access.Caller{OrgID: p.orgID, UserID: p.userID}, run)
	}
	if errors.Is(err, errClaimed) {
		return true, nil
	}
	// A person has to correct these errors, so a retry in the same night is of no use. All others
	// are retried by the queue.
	if f, ok := refusal(err); ok {
		why, err = "No improve run could be started: "+f, nil
	}
	if err != nil || why == "" {
		return why == "", err
	}
	return false, setNight(ctx, s.DB, p, Night{Date: dateOf(now), Note: why})
}

// errClaimed undoes the start of a run: another worker was faster.
var errClaimed = errors.New("the night has looked at the skill already")

// refusal is the message of an error that a person has to correct.
func refusal(err error) (string, bool) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || !slices.Contains([]fault.Kind{fault.Conflict, fault.NotFound, fault.Malformed, fault.Denied}, f.Kind) {
		return "", false
	}
	return f.Message, true
}

// plan decides whether a skill is to be improved: the run to start, or why none is.
func (s *Service) plan(ctx context.Context, p policyOf, now time.Time) (n improve.NewRun, why string, err error) {
	skill, err := s.Skills.Get(ctx, p.orgID, p.skillID)
	switch {
	case err != nil:
		return n, "", err
	case skill.Hidden || skill.MergedInto != nil:
		return n, "The skill is hidden or merged into another one.", nil
	// Healthy skills and those with too few sessions are left alone.
	case skill.Status != skills.Critical && skill.Status != skills.Warning:
		return n, fmt.Sprintf("Nothing to do: the skill is %s.", skill.Status), nil
	}
	spent, err := spentSince(ctx, s.DB, p.orgID, p.skillID, monthOf(now))
	if err != nil {
		return n, "", err
	}
	if spent >= p.MonthlyUSD {
		return n, fmt.Sprintf("The month's budget of %s is spent.", pricing.Format(p.MonthlyUSD)), nil
	}
	suite, fresh, note, err := s.chooseSuite(ctx, p, &n.Subject)
	if err != nil {
		return n, "", err
	}
	if fresh < minNewCases {
		return n, fmt.Sprintf("%d reviewed cases are new since the last improve run, and %d are needed.", fresh, minNewCases), nil
	}
	// One run must not use up the month.
	limit := min(p.MonthlyUSD-spent, maxRunUSD)
	reason := fmt.Sprintf("The skill is %s, and %d reviewed cases of the suite %s are new.", skill.Status, fresh, suite.Name)
	n.SuiteID, n.MaxIterations, n.Holdout, n.MaxCostUSD = suite.ID, improve.DefaultIterations, improve.DefaultHoldout, &limit
	n.Target = s.targetOf(suite)
	n.Also = func(ctx context.Context, tx *store.Tx, r improve.Run) error {
		claimed, err := claimNight(ctx, tx, p, Night{Date: dateOf(now), Note: reason + note, RunID: &r.ID})
		if err != nil {
			return err
		}
		// Another worker has looked at the skill in between: its run must not exist twice.
		if !claimed {
			return errClaimed
		}
		if err := insertRun(ctx, tx, p, r.ID, limit); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: p.orgID, Action: "improve.policy.start", Target: audit.Target{Kind: "improve_run", ID: r.ID, Name: skill.Name},
			Detail: audit.Detail{"reason": reason + note, "mode": p.Mode, "max_cost_usd": limit, "spent_usd": spent},
		})
	}
	return n, "", nil
}

// chooseSuite returns the suite of the skill with the most cases that no improve run
// has had yet, and sets what it is to be run against: the skill's entry, or else its
// newest cloud source. The note says what the mode cannot do. Without a suite that is large enough,
// fresh is 0.
func (s *Service) chooseSuite(
	ctx context.Context, p policyOf, of *subject.Ref,
) (best suites.Suite, fresh int, note string, err error) {
	entry, err := s.entryOf(ctx, p.orgID, p.skillID)
	if err != nil {
		return best, 0, "", err
	}
	entryID := ""
	if entry != nil {
		entryID = entry.ID
		of.EntryID = entry.ID
	} else {
		found, err := s.Sources.List(ctx, p.orgID, sources.Filter{SkillID: p.skillID})
		if err != nil || len(found) == 0 {
			return best, 0, "", err
		}
		of.SourceID = found[0].ID
	}
	if p.Mode == Publish {
		why, err := s.ungated(ctx, p.orgID, entry)
		if err != nil {
			return best, 0, "", err
		}
		if why != "" {
			note = " It only proposes: " + why + "."
		}
	}
	policy, _, err := s.Gates.PolicyOf(ctx, p.orgID, entryID)
	if err != nil {
		return best, 0, "", err
	}
	ids, err := s.Gates.SuitesOf(ctx, p.orgID, policy, p.skillID)
	if err != nil {
		return best, 0, "", err
	}
	for _, id := range ids {
		suite, err := s.Suites.Get(ctx, p.orgID, id)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return best, 0, "", err
		}
		if !suite.Runnable() || s.targetOf(suite) == "" {
			continue
		}
		tried, err := casesTried(ctx, s.DB, p.orgID, id)
		if err != nil {
			return best, 0, "", err
		}
		if n := untried(suite, tried); n > fresh {
			best, fresh = suite, n
		}
	}
	return best, fresh, note, nil
}

// targetOf is what the cases of a suite can prove, and the judge can write: outputs
// depend on the body, and trigger queries on the description. "" if there are too few.
func (s *Service) targetOf(suite suites.Suite) edit.Target {
	description := improve.Check(suite, edit.Description) == nil
	body := s.Improve.Judge.Describe().API != judge.Builtin && improve.Check(suite, edit.Body) == nil
	switch {
	case body && description:
		return edit.Both
	case body:
		return edit.Body
	case description:
		return edit.Description
	}
	return ""
}

// untried counts the cases that a person added since the last run, unattended or not: every
// case of a suite was written or accepted by a person. Cases are compared by id.
func untried(suite suites.Suite, tried map[string]bool) (n int) {
	for _, c := range suite.Cases {
		if c.Runnable() && !tried[c.ID] {
			n++
		}
	}
	return n
}

// conclude notes how a run ended, and reports whether it has not. In the mode publish, the proposal
// of a run that is over is applied.
func (s *Service) conclude(ctx context.Context, p policyOf) (wait bool, err error) {
	n := Night{Date: p.Date}
	r, err := s.Improve.Get(ctx, p.orgID, *p.RunID)
	switch {
	case fault.Is(err, fault.NotFound):
		n.Note = "The improve run was deleted with its suite."
	case err != nil:
		return false, err
	case !r.Status.Over():
		return true, nil
	default:
		n.Note = outcome(r)
		if r.ProposalID != nil && p.Mode == Publish {
			said, err := s.publish(ctx, p, *r.ProposalID)
			if err != nil {
				return false, err
			}
			n.Note += " " + said
		}
	}
	return false, setNight(ctx, s.DB, p, n)
}

// publish applies a proved proposal as a version, which the gate lets pass or holds, and
// says what was done. Applying it again, after a crash, changes nothing.
func (s *Service) publish(ctx context.Context, p policyOf, proposalID string) (string, error) {
	entry, err := s.entryOf(ctx, p.orgID, p.skillID)
	if err != nil {
		return "", err
	}
	why, err := s.ungated(ctx, p.orgID, entry)
	if err != nil || why != "" {
		return "It was only proposed: " + why + ".", err
	}
	proposal, err := s.Apply.Proposals.Get(ctx, p.orgID, proposalID)
	if err != nil {
		return "", err
	}
	if !proposal.Proved {
		return "It was only proposed: it is not proved.", nil
	}
	// The rights are those of the person who set the policy, reduced to writing.
	caller := access.Caller{OrgID: p.orgID, UserID: p.userID, Permissions: []access.Permission{access.Write}}
	_, _, err = s.Apply.Apply(ctx, caller, proposalID, proposals.AsVersion)
	if said, ok := refusal(err); ok {
		return "It was only proposed: " + said + ".", nil
	}
	return "It is being published as a version, which its gate lets pass or holds.", err
}

// outcome says how a run ended.
func outcome(r improve.Run) string {
	switch {
	case r.Status == improve.NoWinner && r.ProposalID == nil:
		return "The improve run found nothing better than the current text."
	case r.Status == runs.Cancelled:
		return "The improve run was cancelled."
	case r.ProposalID != nil:
		return "The improve run found a text that may be better, and proposed it."
	case r.Error != nil:
		return "The improve run failed: " + *r.Error
	}
	return "The improve run ended without a proposal."
}
