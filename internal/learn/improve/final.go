package improve

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
)

// prove tries the winner and the current version on the cases of the proof, and on
// all others for what got worse, with fresh trials. Without a winner the run ends. It is the only
// step that looks at the cases of the proof. The counts of how often they were used are raised in
// the same transaction.
func (x *execution) prove(ctx context.Context, state *search.State) (wait bool, err error) {
	r := x.r
	winner, before := state.Best(), r.member(0)
	// On the selection, and only where both have a verdict.
	if winner.N == 0 || winner.Total(before) <= before.Total(winner) {
		return false, x.end(ctx, NoWinner, x.noWinner())
	}
	if stop := r.short(r.finalTrials(), r.finalCalls()); stop.by != "" {
		x.r.Terms.StoppedBy = stop.by
		return false, x.end(ctx, NoWinner, stop.why+" to prove that iteration "+fmt.Sprint(winner.N)+" is better")
	}
	ref, err := x.held(ctx, r.Iterations[winner.N])
	if err != nil {
		return false, err
	}
	var all []planned
	for _, part := range []struct {
		step   step
		cases  []string
		trials int
	}{
		{proof, r.of(search.Proof), search.ProofTrials},
		{rest, slices.Concat(r.of(search.Train), r.of(search.Selection)), r.Terms.Trials},
	} {
		// Both arms of a part share the seed, so that they get the same catalogues; it differs from
		// the search's, so that the winner can't profit from an order that it was chosen by.
		seed := subject.NewSeed() // another one than that of the search
		for at, of := range map[arm]subject.Ref{candidateArm: ref, currentArm: r.subject()} {
			p, err := x.plan(ctx, order{
				trial: trial{n: winner.N, step: part.step, arm: at}, subject: of, cases: part.cases, trials: part.trials,
				// Four eval runs start at once, so each may use a quarter of what is left.
				seed: seed, share: 4,
			})
			if err != nil {
				return false, err
			}
			all = append(all, p)
		}
	}
	return true, x.start(ctx, all, func(tx *store.Tx, now Run) error {
		now.phase, now.Terms.StoppedBy = proving, x.r.Terms.StoppedBy
		if err := updateSearch(ctx, tx, now); err != nil {
			return err
		}
		return countProofs(ctx, tx, now.SuiteID, r.cases)
	})
}

// noWinner says why no candidate was better.
func (x *execution) noWinner() string {
	tried := 0
	for _, it := range x.r.Iterations[1:] {
		if it.Description != nil {
			tried++
		}
	}
	switch {
	case tried == 0 && x.stopped.why != "":
		return x.stopped.why + " for a candidate and its proof"
	case tried == 0 && len(x.r.Iterations) > 1:
		return "no candidate could be written; the last: " + *x.r.Iterations[len(x.r.Iterations)-1].Problem
	}
	of := fmt.Sprintf("none of %d candidates", tried)
	if tried == 1 {
		of = "no candidate"
	}
	return fmt.Sprintf("%s is better than the current version on the %d cases that choose", of, x.r.Terms.Selection)
}

// conclude ends the run by what the proof shows. Nothing here asks a model: after a crash it is
// computed again with the same result.
func (x *execution) conclude(ctx context.Context) error {
	r := x.r
	// The iteration is taken from the trials, since the winner isn't stored before the end.
	i := slices.IndexFunc(x.trials, func(t trial) bool { return t.step == proof })
	winner := r.Iterations[x.trials[i].n]
	now, before := map[string]result{}, map[string]result{}
	for _, of := range []struct {
		step step
		arm  arm
		into map[string]result
	}{{proof, candidateArm, now}, {proof, currentArm, before}, {rest, candidateArm, now}, {rest, currentArm, before}} {
		run, _ := x.trial(winner.N, of.step, of.arm)
		if run.Status == runs.BudgetSpent {
			x.r.Terms.StoppedBy = byCost
			return x.end(ctx, NoWinner, "the budget was spent before the proof was complete")
		}
		results, _, err := x.results(ctx, run.ID)
		if err != nil {
			return err
		}
		maps.Copy(of.into, results)
	}
	evidence := search.Prove(pairs(r.of(search.Proof), before, now))
	regression := search.Regression(pairs(r.allCases(), before, now))
	// A gain on the proof doesn't count if the whole suite got worse.
	evidence.Proved = evidence.Proved && regression == ""
	problem := ""
	switch {
	case evidence.Cases == 0:
		problem = "no case of the proof has a verdict"
	case regression != "":
		problem = fmt.Sprintf("iteration %d is worse than the current version on the whole suite: %s", winner.N, regression)
	case !evidence.IsBetter():
		problem = fmt.Sprintf("iteration %d is better on the cases that choose, and not on those that prove", winner.N)
	}
	// The proposal and the end of the run commit together. A winner that is better but not proved
	// is proposed as such: a person may still find it useful.
	return x.change(ctx, func(tx *store.Tx, now Run) error {
		now.Proof, now.Total = &evidence, now.Done
		if err := updateSearch(ctx, tx, now); err != nil {
			return err
		}
		if problem != "" {
			problem = runs.Truncate(problem)
			return now.finish(ctx, tx, NoWinner, &problem)
		}
		id, err := x.s.Proposals.Propose(ctx, tx, r.proposal(winner, evidence))
		if err != nil {
			return err
		}
		now.Winner, now.ProposalID = &winner.N, &id
		if !evidence.Proved {
			problem = fmt.Sprintf("iteration %d is better on %d and worse on %d of %d cases that prove, which is too little: "+
				"it is proposed as not proved", winner.N, evidence.Better, evidence.Worse, evidence.Cases)
			return now.finish(ctx, tx, NoWinner, &problem)
		}
		return now.finish(ctx, tx, runs.Succeeded, nil)
	})
}

// Evidence says how a proposal of an improve run was found. Figures that it was
// chosen by are not among them: they flatter the winner.
type Evidence struct {
	ImproveRunID string            `json:"improve_run_id"`
	SuiteID      string            `json:"suite_id"`
	Iteration    int               `json:"iteration"`
	Judge        judge.Description `json:"judge"`
	Seed         int64             `json:"seed"`
	CostUSD      *float64          `json:"cost_usd"`
}

// proposal is the winner as a proposal. Its finding names the run, which makes
// Propose idempotent: a run has one proposal.
func (r Run) proposal(winner Iteration, e search.Evidence) proposals.Draft {
	description, body := parts(winner.SkillMD)
	_, bodyBefore := parts(r.skillMD)
	d := proposals.Draft{
		OrgID: r.OrgID, SkillName: r.Subject.Name, Finding: "improve_run " + r.ID, ProposedBy: "improve_run",
		Target: proposals.Target(r.Terms.Target), CurrentValue: &r.Description, ProposedValue: &description,
		PassRateBefore: &e.Current, ProjectedPassRate: &e.Winner,
		Change: proposals.Change{
			EntryID: r.Subject.EntryID, BaseVersion: r.Subject.Pin.Version, SourceID: r.Subject.SourceID,
			BaseDigest: proposals.Digest(r.skillMD), SkillMD: winner.SkillMD, Diff: edit.Unified(r.skillMD, winner.SkillMD),
		},
		Proved: e.Proved,
		Proof: &proposals.Proof{
			Cases: e.Cases, Current: e.Current, Winner: e.Winner, Better: e.Better, Worse: e.Worse, P: &e.P,
			Interval: &e.Interval,
		},
		Evidence: Evidence{
			ImproveRunID: r.ID, SuiteID: r.SuiteID, Iteration: winner.N, Judge: r.Judge, Seed: r.Seed, CostUSD: r.Cost.USD(),
		},
	}
	if d.Type = d.Target.Type(); d.Type == proposals.Body {
		d.CurrentValue, d.ProposedValue = &bodyBefore, &body
	}
	for _, one := range r.lineage(winner.N) {
		d.Edits = append(d.Edits, proposals.Edit(one))
	}
	// The lower bound of the interval, not the rate: five trials of few cases say little.
	low, _ := stats.Wilson(e.Winner, e.Cases)
	d.Confidence = &low
	how := "This is proved"
	if !e.Proved {
		how = "This is not proved"
	}
	d.Reason = fmt.Sprintf("On %d held-out cases (%d trials each), %d improved and %d got worse: %.0f %% of the trials pass, against "+
		"%.0f %% with the current version. %s (p = %.2g, judge: %s %s).", e.Cases, search.ProofTrials, e.Better, e.Worse, 100*e.Winner, 100*e.Current, how, e.P, r.Judge.API, r.Judge.Model)
	return d
}
