package improve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/edit"
	"github.com/whetstone-dev/whetstone/internal/learn/improve/search"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/rewrite"
)

// search takes the last candidate further, or begins another round. When the search
// is done, the winner is tried. It is called again after every step, and finds out where it is by
// the stage of the last iteration.
func (x *execution) search(ctx context.Context) (wait bool, err error) {
	last := x.r.Iterations[len(x.r.Iterations)-1]
	switch last.stage {
	case written:
		return x.tryCandidate(ctx, last)
	case inMinibatch:
		return x.compare(ctx, last)
	case inSelection:
		return false, x.finishCandidate(ctx, last)
	case done:
	}
	state := x.r.state()
	merged := last.Partner != nil
	x.stopped = x.r.short(x.r.roundTrials()+x.r.finalTrials(), x.r.roundCalls()+x.r.finalCalls())
	if state.Rounds >= x.r.MaxIterations {
		x.stopped = stop{by: byIterations}
	}
	// Stored with the next change, as the reason that the API shows.
	x.r.Terms.StoppedBy = x.stopped.by
	// When the built-in writer has found nothing to write, it would find nothing again: it is deterministic.
	exhausted := x.r.Judge.API == judge.Builtin && last.N > 0 && last.Description == nil
	if !merged && !state.Done(x.r.MaxIterations) && !exhausted && x.stopped.by == "" {
		began, waiting, err := x.round(ctx, state)
		if began || err != nil {
			return waiting, err
		}
	}
	if !merged {
		began, err := x.merge(ctx, state)
		if began || err != nil {
			return false, err
		}
	}
	return x.prove(ctx, state)
}

// random returns the random numbers of a round. They depend on the seed and the round only, so that
// a step that is repeated after a crash draws the same parent and minibatch.
func (r Run) random(n int) *rand.Rand { return rand.New(rand.NewPCG(uint64(r.Seed), uint64(n)+2)) }

// round begins a round: it draws the parent and the minibatch, makes sure that
// their results are known, and has a candidate written. It reports false if the
// parent fails no case that could be written from.
func (x *execution) round(ctx context.Context, state *search.State) (began, wait bool, err error) {
	r := &x.r
	n := len(r.Iterations)
	random := r.random(n)
	parent := &r.Iterations[state.Parent(random).N]
	train, failing := r.of(search.Train), map[string]bool{}
	for _, id := range train {
		if got, ok := r.known(parent.N, id); ok && got.Verdict == runs.Fail {
			failing[id] = true
		}
	}
	if len(failing) == 0 {
		return false, false, nil
	}
	batch := search.Minibatch(train, failing, random)
	// An earlier call made the rollout.
	if tried, ok := x.trial(n, rollout, candidateArm); ok {
		results, _, err := x.results(ctx, tried.ID)
		if err != nil {
			return true, false, err
		}
		maps.Copy(parent.results, results)
	} else if unknown := slices.DeleteFunc(slices.Clone(batch),
		func(id string) bool { _, ok := parent.results[id]; return ok }); len(unknown) > 0 {
		return true, true, x.rollout(ctx, n, *parent, unknown)
	}
	it, cost, err := x.write(ctx, n, *parent, batch)
	if err != nil {
		return true, false, err
	}
	r.writing.Add(cost)
	r.Cost.Add(cost)
	// It was paid for, so it is stored even if the worker was stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), runs.FlushTimeout)
	defer cancel()
	return true, false, x.insert(ctx, it, parent)
}

// insert stores a candidate with its cost, and the results that were learnt about its parent. If
// another worker has stored the iteration, nothing is written: its candidate counts.
func (x *execution) insert(ctx context.Context, it Iteration, parent *Iteration) error {
	return x.change(ctx, func(tx *store.Tx, now Run) error {
		isNew, err := insertIteration(ctx, tx, now.ID, it)
		if err != nil || !isNew {
			return err
		}
		if it.sourceID != nil {
			if err := insertSource(ctx, tx, now, *it.sourceID); err != nil {
				return err
			}
		}
		if parent != nil {
			if err := updateIteration(ctx, tx, now.ID, *parent); err != nil {
				return err
			}
		}
		return updateSearch(ctx, tx, now)
	})
}

// rollout tries what is not known of a minibatch with the parent of the next
// candidate. Cases on which the parent has results of its own are not tried again.
func (x *execution) rollout(ctx context.Context, n int, parent Iteration, ids []string) error {
	ref, err := x.held(ctx, parent)
	if err != nil {
		return err
	}
	p, err := x.plan(ctx, order{
		trial: trial{n: n, step: rollout, arm: candidateArm}, subject: ref, cases: ids, trials: x.r.Terms.Trials,
		seed: x.r.Seed, share: 1,
	})
	if err != nil {
		return err
	}
	return x.start(ctx, []planned{p}, func(*store.Tx, Run) error { return nil })
}

// held returns where the files of a candidate are; it stores them if that was not
// done yet. The files of a candidate are a source of its own, so that eval runs read it like any
// other skill; clean deletes it.
func (x *execution) held(ctx context.Context, it Iteration) (subject.Ref, error) {
	r := x.r
	if it.N == 0 {
		return r.subject(), nil
	}
	// A crash after Hold leaves the snapshot, which is found here by the id that was stored with
	// the iteration.
	if snapshot, err := x.s.Sources.Snapshot(ctx, r.OrgID, *it.sourceID, ""); !fault.Is(err, fault.NotFound) {
		return subject.Ref{SnapshotID: snapshot.ID}, err // of an earlier round
	}
	skill, err := x.s.Runs.Subjects().FindPinned(ctx, r.OrgID, r.Subject)
	if err != nil {
		return subject.Ref{}, err
	}
	before, _, err := skill.Read(ctx)
	if err != nil {
		return subject.Ref{}, err
	}
	defer func() { _ = before.Close() }() // it was only read
	pkg, err := before.WithSkill(ctx, it.SkillMD)
	if err != nil {
		return subject.Ref{}, err
	}
	defer func() { _ = pkg.Close() }()
	label := fmt.Sprintf("%s, candidate %d of an improve run", r.Subject.Name, it.N)
	snapshot, err := x.s.Sources.Hold(ctx, access.Caller{OrgID: r.OrgID, UserID: r.CreatedBy}, *it.sourceID,
		sources.NewSource{Label: label, Type: sources.Candidate}, pkg)
	return subject.Ref{SnapshotID: snapshot.ID}, err
}

// tryCandidate starts the first run of a candidate: on its minibatch, and for a
// merge on the selection. One that cannot be tried ends its iteration. Errors of the kinds
// Conflict, TooLarge and Malformed are the candidate's fault and not the run's.
func (x *execution) tryCandidate(ctx context.Context, it Iteration) (wait bool, err error) {
	ref, err := x.held(ctx, it)
	at, ids := minibatch, it.minibatch
	it.stage = inMinibatch
	if it.Partner != nil {
		at, ids, it.stage = selection, x.r.of(search.Selection), inSelection
	}
	if err == nil {
		err = x.try(ctx, it, at, ids, ref)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok &&
		(f.Kind == fault.Conflict || f.Kind == fault.TooLarge || f.Kind == fault.Malformed) {
		return false, x.refuse(ctx, it, f.Message)
	}
	return true, err
}

// try starts a run of a candidate.
func (x *execution) try(ctx context.Context, it Iteration, at step, ids []string, ref subject.Ref) error {
	p, err := x.plan(ctx, order{
		trial: trial{n: it.N, step: at, arm: candidateArm}, subject: ref, cases: ids, trials: x.r.Terms.Trials,
		seed: x.r.Seed, share: 1,
	})
	if err != nil {
		return err
	}
	return x.start(ctx, []planned{p}, func(tx *store.Tx, now Run) error { return updateIteration(ctx, tx, now.ID, it) })
}

// refuse ends an iteration whose candidate cannot win.
func (x *execution) refuse(ctx context.Context, it Iteration, problem string) error {
	problem = runs.Truncate(problem)
	it.Problem, it.stage = &problem, done
	return x.change(ctx, func(tx *store.Tx, now Run) error { return updateIteration(ctx, tx, now.ID, it) })
}

// compare reads the outcome of the minibatch. A candidate that is not worse than its
// parent goes on to the selection. This screening saves most candidates the cost of a selection.
func (x *execution) compare(ctx context.Context, it Iteration) (wait bool, err error) {
	r := &x.r
	run, _ := x.trial(it.N, minibatch, candidateArm)
	results, problem, err := x.results(ctx, run.ID)
	if err != nil {
		return false, err
	}
	it.results = results
	it.count(*r)
	gain, known := r.gain(it)
	switch {
	case run.Status == runs.BudgetSpent:
		return false, x.refuse(ctx, it, "the budget was spent before the candidate was scored")
	case problem != "":
		return false, x.refuse(ctx, it, problem)
	case !known || gain < 0:
		return false, x.refuse(ctx, it, fmt.Sprintf("worse than iteration %d on the cases that it was written from: %s, and %s before",
			it.Parent, passedOf(it.minibatch, results), passedOf(it.minibatch, r.Iterations[it.Parent].results)))
	}
	ref, err := x.held(ctx, it)
	if err != nil {
		return false, err
	}
	it.stage = inSelection
	return true, x.try(ctx, it, selection, r.of(search.Selection), ref)
}

// passedOf counts the cases that pass, e.g. "3 of 8 pass".
func passedOf(ids []string, results map[string]result) string {
	var s Score
	for _, id := range ids {
		s.add(results[id])
	}
	return fmt.Sprintf("%d of %d pass", s.Passed, s.Cases)
}

// finishCandidate reads the outcome of the selection.
func (x *execution) finishCandidate(ctx context.Context, it Iteration) error {
	run, _ := x.trial(it.N, selection, candidateArm)
	results, problem, err := x.results(ctx, run.ID)
	if err != nil {
		return err
	}
	maps.Copy(it.results, results)
	it.count(x.r)
	if run.Status == runs.BudgetSpent {
		problem = "the budget was spent before the candidate was scored"
	}
	if problem != "" {
		return x.refuse(ctx, it, problem)
	}
	it.stage = done
	return x.change(ctx, func(tx *store.Tx, now Run) error { return updateIteration(ctx, tx, now.ID, it) })
}

// merge makes a candidate of the best one and the one that complements it, if they
// change different words. It reports whether it did. A merge is tried on the selection only, as it
// was not written from a minibatch.
func (x *execution) merge(ctx context.Context, state *search.State) (bool, error) {
	r := x.r
	partner, found := state.Partner()
	if !found || r.short(r.Terms.Selection*r.Terms.Trials+r.finalTrials(), r.finalCalls()).by != "" {
		return false, nil
	}
	a, b := r.Iterations[state.Best().N], r.Iterations[partner.N]
	skillMD, ok := edit.Merge(r.skillMD, a.SkillMD, b.SkillMD)
	if !ok {
		return false, nil
	}
	it := x.candidate(len(r.Iterations), a.N, skillMD)
	it.Partner = &b.N
	it.Reason = fmt.Sprintf("has the changes of the iterations %d and %d", a.N, b.N)
	// The parts passed the guard one by one, but together they may exceed the limit of growth.
	guard, err := x.guard(ctx)
	if err != nil {
		return false, err
	}
	problems, err := guard.Check(ctx, r.skillMD, skillMD)
	if err != nil {
		return false, err
	}
	if len(problems) > 0 {
		return false, nil
	}
	return true, x.insert(ctx, it, nil)
}

// parts returns the description and the body of a SKILL.md. One that cannot be read
// is a body.
func parts(skillMD string) (description, body string) {
	d, err := rewrite.Parse(skillMD)
	if err != nil {
		return "", skillMD
	}
	return d.Description, d.Body
}

// candidate is a new iteration with a SKILL.md.
func (x *execution) candidate(n, parent int, skillMD string) Iteration {
	description, _ := parts(skillMD)
	description = text.Clean(description)
	id := store.NewID()
	return Iteration{
		N: n, Parent: parent, Description: &description, SkillMD: skillMD, stage: written, sourceID: &id,
		results: map[string]result{},
	}
}
