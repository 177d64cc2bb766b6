package runs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// agentOf returns the agent that works on a case, or nil if none does. A case that
// names an agent uses that one; a case that only sets limits (turns, timeout) applies
// them to the run's agent; any other case uses the run's agent as it is.
func (r Run) agentOf(c suites.Case) *suites.Agent {
	if !c.TakesAgent() {
		return nil
	}
	run := r.Terms.Agent
	switch {
	case c.Agent == nil:
		return run
	case c.Agent.Name != "":
		return c.Agent
	case run == nil:
		return nil
	}
	limited := *run // the case has limits only
	limited.MaxTurns, limited.TimeoutS = cmp.Or(c.Agent.MaxTurns, run.MaxTurns), cmp.Or(c.Agent.TimeoutS, run.TimeoutS)
	return &limited
}

// openBudget continues the run's meter where earlier workers left it. A stored trial
// that ended with budget_spent marks the budget as spent, so that a restarted worker
// makes no more trials.
func (x *execution) openBudget(ctx context.Context, made []Trial) (err error) {
	x.budget, err = spend.OpenBudget(ctx, x.s.DB, x.run.ID, x.run.Terms)
	if err == nil && slices.ContainsFunc(made, isBudgetSpent) {
		x.budget.SetSpent()
	}
	return err
}

// isBudgetSpent reports whether a trial has no verdict because the budget ran out. A
// trial stores its problem as text ("code: message"), so the code is matched by prefix.
func isBudgetSpent(t Trial) bool {
	return t.Error != nil && strings.HasPrefix(*t.Error, attempt.BudgetSpent+":")
}

// addCost sets the cost of a trial: the agent's requests, plus those of the judge and
// of the model that produced the output. Only the latter are added to the budget here;
// the gateway metered the agent's as they were made.
func (x *execution) addCost(t *Trial) {
	var judged spend.Cost
	for _, record := range []*judge.Record{t.Evidence.Judge, t.Evidence.Producer} {
		if record != nil {
			judged.Add(spend.OfRecord(*record, x.prices, time.Now()))
		}
	}
	x.budget.Add(judged)
	total := t.agentCost
	total.Add(judged)
	if total.Requests > 0 || t.Evidence.Agent != nil { // an agent that asked nothing has cost nothing
		t.Evidence.Cost = &total
	}
	if isBudgetSpent(*t) {
		x.budget.SetSpent()
	}
}

// prepareAttempts writes the skills that agents find beside the one under test: the
// run's distractors, and the skills that the subject requires.
func (x *execution) prepareAttempts(ctx context.Context) (err error) {
	x.attempts = &attempt.Maker{Agents: x.s.Agents, Meter: x.budget.Meter, Prices: x.prices, Dir: x.dir}
	if x.distractors, err = attempt.WriteDistractors(x.dir, x.run.Distractors); err != nil {
		return err
	}
	return attempt.WriteRequired(ctx, x.dir, x.s.Subjects(), x.run.OrgID, x.run.Subject.Requires, x.distractors)
}

// task returns the task of an agent in a trial.
func (x *execution) task(a suites.Agent, t *Trial) attempt.Task {
	task := attempt.Task{
		Agent: a, Without: t.Arm == WithoutSkill, Skills: maps.Clone(x.distractors),
		Answered: x.activity.Of(x.cases[t.Case].ID, string(t.Arm), t.N),
	}
	skill := x.skills[t.Arm]
	// The arm without the skill needs its name as well: traces of it would contaminate
	// the trial.
	if task.Without {
		if skill = x.skills[WithSkill]; skill == nil { // the run is about no skill
			return task
		}
	}
	task.Skill = attempt.SkillName(skill.text, skill.Name)
	// A distractor of the same name would shadow the subject.
	delete(task.Skills, task.Skill)
	if !task.Without {
		task.Skills[task.Skill] = skill.dir
	}
	return task
}

// attempt lets an agent follow a prompt in an empty folder. What the agent did and cost
// is kept in the trial, also with an error.
func (x *execution) attempt(ctx context.Context, a suites.Agent, prompt string, t *Trial) (verify.Sample, error) {
	r, err := x.attempts.Prompt(ctx, x.task(a, t), prompt)
	t.addAgent(r)
	if err != nil {
		return verify.Sample{Output: r.Final}, err
	}
	t.Evidence.ExitCode = &r.ExitCode
	return r.Sample(), nil
}

// addAgent adds what an agent did and cost to the trial. In a task of several steps the
// agent runs once per step, and the steps are joined. A result without a name means
// that no agent was started.
func (t *Trial) addAgent(r attempt.Result) {
	t.agentCost.Add(r.Cost)
	if r.Name == "" {
		return
	}
	if before := t.Evidence.Agent; before != nil {
		r.Evidence, r.Recording = before.Then(r.Evidence), t.did.Then(r.Recording)
	}
	t.Evidence.Agent, t.did = &r.Evidence, &r.Recording
}

// saveRecording stores what the agent of a trial did. A failure is only logged: the
// verdict was paid for, so it counts even without a recording. The context is detached,
// so a worker that shuts down still saves.
func (x *execution) saveRecording(ctx context.Context, t *Trial) {
	if t.did == nil || x.s.Recordings == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FlushTimeout)
	defer cancel()
	ref, err := x.s.Recordings.Put(ctx, x.run.OrgID, x.run.ID, *t.did, x.redact, recording.TextLimit(x.run.Total))
	if err != nil {
		x.s.Log.WarnContext(ctx, "what an agent did is not kept", "run", x.run.ID, "error", err)
		return
	}
	ref.CaseID, ref.Variant, ref.N = x.cases[t.Case].ID, string(t.Arm), t.N
	t.recorded, t.Evidence.Recording = ref, ref.ID
}

// insertRecordings stores the rows of a batch's recordings, where n of the batch's
// trials are new. If another worker stored some of the trials first, its recordings
// count, and the bytes of ours are left to the sweep.
func (x *execution) insertRecordings(ctx context.Context, tx *store.Tx, batch []Trial, n int64) error {
	var refs []recording.Ref
	for _, t := range batch {
		if t.recorded.ID != "" {
			refs = append(refs, t.recorded)
		}
	}
	if len(refs) > 0 && int(n) < len(batch) {
		stored, err := trialsOfRun(ctx, tx, x.run.ID, nil)
		if err != nil {
			return err
		}
		refs = slices.DeleteFunc(refs, func(r recording.Ref) bool {
			return !slices.ContainsFunc(stored, func(t Trial) bool { return t.Evidence.Recording == r.ID })
		})
	}
	return recording.Insert(ctx, tx, refs)
}

// activate asks an agent the query of a trigger case. The trial passes if the agent
// activated the skill exactly when the case expects it.
func (x *execution) activate(ctx context.Context, c suites.Case, a suites.Agent, t *Trial) error {
	s, err := x.attempt(ctx, a, c.Query, t)
	t.OutputTail = x.tail(s.Output)
	if err != nil {
		return err
	}
	activated := s.Agent.Activated
	if activated == nil {
		return &Problem{Code: attempt.Unsupported, Message: "the agent does not tell which skills it activates"}
	}
	did := "did not activate"
	if *activated {
		did = "activated"
	}
	t.decideBinary(*activated == (c.Expectation == suites.ShouldTrigger), "the agent %s the skill", did)
	return nil
}

// packageAgent returns the function that lets the case's agent work on a task package,
// or nil if the case has no agent. A Problem of the agent becomes a taskpkg.Stop, which
// ends the trial without a verdict.
func (x *execution) packageAgent(c suites.Case, t *Trial) func(context.Context, taskpkg.Workplace) error {
	a := x.run.agentOf(c)
	if a == nil {
		return nil
	}
	return func(ctx context.Context, w taskpkg.Workplace) error {
		r, err := x.attempts.Package(ctx, x.task(*a, t), w)
		t.addAgent(r)
		if p, ok := errors.AsType[*Problem](err); ok {
			return taskpkg.Stop(p.Code, p.Message)
		}
		return err
	}
}
