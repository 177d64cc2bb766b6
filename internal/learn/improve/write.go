package improve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/writer"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/rewrite"
)

// write has a candidate written from a parent and a minibatch, and says what that
// cost. An iteration without a candidate says why. Cases of the selection and of the
// proof must stay out of all requests. It makes one call of the writer's model, or two. An unusable
// answer is an iteration with a problem, so that the search goes on.
func (x *execution) write(ctx context.Context, n int, parent Iteration,
	batch []string,
) (it Iteration, cost spend.Cost, err error) {
	guard, err := x.guard(ctx)
	if err != nil {
		return it, cost, err
	}
	prices, err := x.s.prices(ctx, x.r.OrgID)
	if err != nil {
		return it, cost, err
	}
	var answer writer.Answer
	if x.r.Terms.Target == edit.Description {
		answer, err = x.rewrite(ctx, parent, guard)
	} else {
		var ask writer.Request
		if ask, err = x.request(ctx, parent, batch, guard); err == nil {
			answer, err = writer.Write(ctx, x.s.Judge, ask)
		}
	}
	// Unless the judge is misconfigured or unavailable, its failure says nothing about other requests.
	if e, ok := errors.AsType[*judge.Error](err); ok && !isHopeless(e) && e.Code != judge.Unavailable &&
		e.Code != judge.Timeout {
		answer, err = writer.Answer{Reason: e.Error(), Record: e.Record}, nil
	}
	if err != nil {
		return it, cost, err
	}
	cost = spend.OfRecord(answer.Record, prices, store.Now())
	problem := answer.Reason
	if len(answer.Edits) > 0 {
		problem = x.wasTried(answer.Skill)
	}
	if len(answer.Edits) == 0 || problem != "" {
		problem = runs.Truncate(problem)
		return Iteration{
			N: n, Parent: parent.N, Problem: &problem, stage: done, minibatch: batch, Edits: answer.Edits,
			results: map[string]result{},
		}, cost, nil
	}
	it = x.candidate(n, parent.N, answer.Skill)
	it.Reason, it.minibatch = runs.Truncate(answer.Reason), batch
	it.Edits = answer.Edits
	return it, cost, nil
}

// wasTried says which iteration had the same text; "" if none had. Trying it again would only
// measure noise.
func (x *execution) wasTried(skillMD string) string {
	for _, it := range x.r.Iterations {
		if it.N == 0 && skillMD == x.r.skillMD || it.N > 0 && skillMD == it.SkillMD {
			return fmt.Sprintf("the writer wrote the text of iteration %d again", it.N)
		}
	}
	return ""
}

// guard knows what a candidate must not have. It compares with the version that the run began with,
// so that many small changes can't add up to a large one.
func (x *execution) guard(ctx context.Context) (g edit.Guard, err error) {
	skill, err := x.s.Runs.Subjects().FindPinned(ctx, x.r.OrgID, x.r.Subject)
	if err != nil {
		return g, err
	}
	pkg, _, err := skill.Read(ctx)
	if err != nil {
		return g, err
	}
	defer func() { _ = pkg.Close() }() // it was only read
	for _, f := range pkg.Installed() {
		if f.Path != pkg.SkillPath {
			g.Files = append(g.Files, f.Path)
		}
	}
	// Cases that were left out of the run may be seen: nothing is decided by them.
	unseen := slices.Concat(x.r.of(search.Selection), x.r.of(search.Proof))
	for _, c := range x.suite.Cases {
		if slices.Contains(unseen, c.ID) {
			g.HeldOut = append(g.HeldOut, caseTexts(c)...)
		}
	}
	return g, nil
}

// rewrite has a description written from all that is known of the training queries. Only results of
// the training part go into the request.
func (x *execution) rewrite(ctx context.Context, parent Iteration, guard edit.Guard) (a writer.Answer, err error) {
	r := x.r
	skillMD := parent.SkillMD
	if parent.N == 0 {
		skillMD = r.skillMD
	}
	before, _ := parts(skillMD)
	ask := judge.RewriteRequest{
		Skill: judge.Skill{Name: r.Subject.Name, Description: *parent.Description}, Opening: skillMD, Distractors: r.Distractors,
	}
	chosen, err := x.chosen(ctx, parent.N)
	if err != nil {
		return a, err
	}
	train := r.of(search.Train)
	for _, c := range x.suite.Cases {
		if got, ok := r.known(parent.N, c.ID); ok && got.Verdict.Decided() && slices.Contains(train, c.ID) {
			ask.Samples = append(ask.Samples, judge.Sample{
				Query: c.Query, Wanted: c.Expectation == suites.ShouldTrigger, Right: got.Verdict == runs.Pass,
				Chosen: chosen[c.ID],
			})
		}
	}
	for _, it := range r.Iterations {
		if it.Description != nil {
			ask.Tried = append(ask.Tried, judge.Attempt{Description: *it.Description, Right: it.Train.Passed, Of: it.Train.Cases})
		}
	}
	got, err := x.s.Judge.Rewrite(ctx, ask)
	if err != nil {
		return a, err
	}
	// The anchor is the whole old description: for the reader the edit shows before and after.
	e := edit.Edit{Op: edit.Replace, Anchor: before, Text: got.Description, Why: got.Reason, Cases: []string{}}
	skill, err := rewrite.Description(skillMD, got.Description)
	if err != nil {
		a.Reason, a.Record = err.Error(), got.Record // it is the writer's fault, and told as such
		return a, nil                                //nolint:nilerr // as above
	}
	problems, err := guard.Check(ctx, r.skillMD, skill)
	if err != nil {
		return a, err
	}
	if len(problems) > 0 {
		return writer.Answer{Reason: strings.Join(problems, "; "), Record: got.Record}, nil
	}
	return writer.Answer{Edits: []edit.Edit{e}, Skill: skill, Reason: got.Reason, Record: got.Record}, nil
}

// chosen returns the skill that each trigger query chose, by case. The writer sees which skill was
// loaded instead, which says more than that it failed.
func (x *execution) chosen(ctx context.Context, n int) (map[string]string, error) {
	all := map[string]string{}
	reports, err := x.reports(ctx, n, x.r.of(search.Train))
	for id, t := range reports {
		if t.Evidence.Chosen != nil {
			all[id] = *t.Evidence.Chosen
		}
	}
	return all, err
}

// reports returns a trial of each case that shows what is known of it with a
// candidate: one with the case's verdict. A trial with another verdict than the case would mislead
// the writer.
func (x *execution) reports(ctx context.Context, n int, ids []string) (map[string]runs.Trial, error) {
	in := map[string][]string{} // the cases by run
	for _, id := range ids {
		if got, ok := x.r.known(n, id); ok {
			in[got.RunID] = append(in[got.RunID], id)
		}
	}
	all := map[string]runs.Trial{}
	for runID, wanted := range in { // those of the candidate, and of its ancestors
		report, err := x.s.Runs.Report(ctx, x.r.OrgID, runID, "")
		if err != nil {
			return nil, err
		}
		for i, c := range report.Cases {
			if !slices.Contains(wanted, c.ID) {
				continue
			}
			for _, t := range report.Results[i].Trials {
				if t.Verdict == *report.Results[i].Verdict {
					all[c.ID] = t
				}
			}
		}
	}
	return all, nil
}

// request asks for edits that mend the failing cases of the minibatch. Each text of a case that
// goes into it must be of the training part: batch is drawn from nothing else.
func (x *execution) request(ctx context.Context, parent Iteration, batch []string,
	guard edit.Guard,
) (ask writer.Request, err error) {
	r := x.r
	ask = writer.Request{Skill: parent.SkillMD, Original: r.skillMD, Target: r.Terms.Target, Guard: guard}
	if parent.N == 0 {
		ask.Skill = r.skillMD
	}
	shown, err := x.reports(ctx, parent.N, batch)
	if err != nil {
		return ask, err
	}
	for _, c := range x.suite.Cases {
		t, ok := shown[c.ID]
		if !ok || !t.Verdict.Decided() {
			continue
		}
		if one := newCase(c, t); t.Verdict == runs.Pass {
			ask.Passing = append(ask.Passing, one)
		} else {
			ask.Failing = append(ask.Failing, one)
		}
	}
	if ask.Production, err = x.production(ctx); err != nil {
		return ask, err
	}
	// Edits that live on in a member of the pool or its ancestors were not refused.
	kept := map[int]bool{} // the pool, and what it was made from
	for _, m := range r.state().Pool {
		r.ancestry(m.N, kept)
	}
	for _, it := range r.Iterations[1:] {
		effect := fmt.Sprintf("%s of the cases that it was written from, and others did not get better",
			passedOf(it.minibatch, it.results))
		if it.Problem != nil {
			effect = *it.Problem
		}
		if !kept[it.N] && len(it.Edits) > 0 {
			ask.Refused = append(ask.Refused, writer.Tried{Edits: it.Edits, Effect: effect})
		}
	}
	return ask, nil
}

// production returns what contributors' signals say about the skill: aggregate counts without any
// of their words.
func (x *execution) production(ctx context.Context) (said []string, err error) {
	found, _, err := x.s.Proposals.List(ctx, x.r.OrgID, proposals.Filter{
		Status: proposals.Pending, SkillName: x.r.Subject.Name, ProposedBy: proposals.Contributors, Page: store.Page{Limit: 5},
	})
	for _, p := range found {
		said = append(said, p.Reason)
	}
	return said, err
}

// newCase is a case as the writer sees it.
func newCase(c suites.Case, t runs.Trial) writer.Case {
	one := writer.Case{
		ID: c.ID, Prompt: c.Title(), Expectation: caseExpectation(c), Output: t.OutputTail,
		Quotation: t.Evidence.Summary,
	}
	if c.Subject.Prompt != nil {
		one.Prompt = *c.Subject.Prompt
	}
	for _, criterion := range t.Evidence.Criteria {
		if !criterion.Passed {
			one.Quotation += fmt.Sprintf("\nnot met: %s (%s)", criterion.Text, criterion.Quote)
		}
	}
	for _, g := range t.Evidence.Graders {
		if !g.Passed {
			one.Quotation += fmt.Sprintf("\nnot met: %s", g.Name)
		}
	}
	return one
}
