package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/gateway"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/runs/sse"
	"github.com/whetstone-dev/whetstone/internal/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/store"
	"github.com/whetstone-dev/whetstone/internal/suites"
	"github.com/whetstone-dev/whetstone/internal/suites/verify"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// agentOf returns the agent that works on a case: the case's own, or that of the
// run, with the limits of the case, or nil.
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

// openBudget continues the meter of the run where earlier workers left it.
func (x *execution) openBudget(ctx context.Context, made []Trial) error {
	micros, err := spend.Spent(ctx, x.s.DB, x.run.ID)
	if err != nil {
		return err
	}
	var budget gateway.Budget
	if most := x.run.Terms.MaxMicros; most != nil {
		budget.Micros = *most
	}
	x.budget = gateway.NewMeter(budget, gateway.Usage{Micros: micros}, nil)
	x.spent.Store(slices.ContainsFunc(made, isBudgetSpent))
	return nil
}

func isBudgetSpent(t Trial) bool {
	return t.Error != nil && strings.HasPrefix(*t.Error, attempt.BudgetSpent+":")
}

// budgetSpent reports whether nothing is left of what the run may cost.
func (x *execution) budgetSpent() bool {
	if most := x.run.Terms.MaxMicros; most != nil && x.budget.Used().Micros >= *most {
		x.spent.Store(true)
	}
	return x.spent.Load()
}

// saveSpent stores what the run's requests have cost, so that the next worker keeps
// the budget.
func (x *execution) saveSpent(ctx context.Context, q store.Querier) error {
	if x.run.Terms == (spend.Terms{}) {
		return nil
	}
	micros := x.budget.Used().Micros
	if micros == x.saved.Load() {
		return nil
	}
	if err := spend.SaveSpent(ctx, q, x.run.ID, micros); err != nil {
		return err
	}
	x.saved.Store(micros)
	return nil
}

// addCost gives a trial its cost. What the agent used is in the budget already.
func (x *execution) addCost(t *Trial) {
	var judged spend.Cost
	for _, record := range []*judge.Record{t.Evidence.Judge, t.Evidence.Producer} {
		if record != nil {
			judged.Add(spend.OfRecord(*record, x.prices, time.Now()))
		}
	}
	x.budget.Add(gateway.Usage{Requests: judged.Requests, Micros: judged.Micros, Unpriced: judged.Unpriced})
	total := t.agentCost
	total.Add(judged)
	if total.Requests > 0 || t.Evidence.Agent != nil { // an agent that asked nothing has cost nothing
		t.Evidence.Cost = &total
	}
	if isBudgetSpent(*t) {
		x.spent.Store(true)
	}
}

// prepareAttempts writes the distractors of the run as skills. They have their
// names and descriptions, by which agents choose, and no content.
func (x *execution) prepareAttempts() error {
	x.attempts = &attempt.Maker{Agents: x.s.Agents, Meter: x.budget, Prices: x.prices, Dir: x.dir}
	x.distractors = map[string]string{}
	for i, d := range x.run.Distractors {
		dir := filepath.Join(x.dir, fmt.Sprintf("distractor-%d", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		name := attempt.SkillName("", d.Name)
		content := fmt.Sprintf("---\nname: %s\ndescription: %q\n---\nThis skill is not available here.\n",
			name, text.PlainLine(d.Description))
		err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(content), 0o644) //nolint:gosec // the sandbox's user reads it
		if err != nil {
			return err
		}
		x.distractors[name] = dir
	}
	return nil
}

// task returns the task of an agent in a trial.
func (x *execution) task(a suites.Agent, t *Trial) attempt.Task {
	task := attempt.Task{
		Agent: a, Without: t.Arm == WithoutSkill, Skills: maps.Clone(x.distractors), Answered: x.reporter(t.TrialKey),
	}
	skill := x.skills[t.Arm]
	if task.Without {
		skill = x.skills[WithSkill]
	}
	task.Skill = attempt.SkillName(skill.text, skill.Name)
	delete(task.Skills, task.Skill)
	if !task.Without {
		task.Skills[task.Skill] = skill.dir
	}
	return task
}

// attempt lets an agent follow a prompt.
func (x *execution) attempt(ctx context.Context, a suites.Agent, prompt string, t *Trial) (verify.Sample, error) {
	r, err := x.attempts.Prompt(ctx, x.task(a, t), prompt)
	t.addAgent(r)
	if err != nil {
		return verify.Sample{Output: r.Final}, err
	}
	t.Evidence.ExitCode = &r.ExitCode
	return r.Sample(), nil
}

// addAgent keeps what an agent did, if it was run. In a task of several steps it is
// run for each.
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

// saveRecording stores what the agent of a trial did. A verdict was paid for, so it
// counts also if that fails.
func (x *execution) saveRecording(ctx context.Context, t *Trial) {
	if t.did == nil || x.s.Recordings == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FlushTimeout)
	defer cancel()
	ref, err := x.s.Recordings.Put(ctx, x.run.OrgID, x.run.ID, *t.did, x.redact, recording.TextLimit(x.run.Total))
	if err != nil {
		x.s.Log.WarnContext(ctx, "what an agent did is not kept", "run", x.run.ID, "err", err)
		return
	}
	ref.CaseID, ref.Variant, ref.N = x.cases[t.Case].ID, string(t.Arm), t.N
	t.recorded, t.Evidence.Recording = ref, ref.ID
}

// redact removes secrets from what an agent wrote: those that it may have found, and
// the keys of the models.
func (x *execution) redact(s string) string {
	return x.s.Agents.Gateway.Redact(x.s.Judge.Redact(taskpkg.Redact(s)))
}

// insertRecordings stores the rows of a batch's recordings, of which n trials are
// new. Those of trials that another worker has stored do not count.
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

// activate asks an agent the query of a case, and decides by whether it activated
// the skill.
func (x *execution) activate(ctx context.Context, c suites.Case, a suites.Agent, t *Trial) error {
	s, err := x.attempt(ctx, a, c.Query, t)
	t.OutputTail = tail(s.Output, x.tailLimit)
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

// packageAgent returns how an agent works on a task package, nil if none does.
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

// materialOf is what the judge reads of a sample: the output, and the files that an
// agent left.
func materialOf(s verify.Sample) string {
	if s.Agent == nil || len(s.Files) == 0 {
		return s.Output
	}
	var b strings.Builder
	b.WriteString(s.Output)
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		fmt.Fprintf(&b, "\n\n[file %s]\n%s", text.PlainLine(name), text.Truncate(s.Files[name], maxMaterialFile))
		if b.Len() > maxMaterial {
			break
		}
	}
	return text.Truncate(b.String(), maxMaterial)
}

// Limits of what the judge reads of an agent's files.
const (
	maxMaterialFile = 16 << 10
	maxMaterial     = 64 << 10
)

// agentEvent is the name of the events that say what an agent does.
const agentEvent = "agent"

// agentData is the data of such an event: one answer of the model.
type agentData struct {
	CaseID  string   `json:"case_id"`
	Variant Arm      `json:"variant"`
	N       int      `json:"n"`
	Turn    int      `json:"turn"`
	Text    string   `json:"text"` // its beginning
	Tools   []string `json:"tools"`
}

// Limits of the events of agents, each of which is a row.
const (
	maxTrialEvents = 100
	maxAgentEvents = 5_000 // of one turn of the job
	maxEventText   = 200
)

// reporter returns a function that reports what the agent of a trial does.
func (x *execution) reporter(key TrialKey) func(gateway.Answer) {
	turn := 0
	return func(a gateway.Answer) {
		x.activityMu.Lock()
		defer x.activityMu.Unlock()
		turn++
		if x.agentEvents++; turn > maxTrialEvents || x.agentEvents > maxAgentEvents {
			return
		}
		data := agentData{
			CaseID: x.cases[key.Case].ID, Variant: key.Arm, N: key.N, Turn: turn, Tools: []string{},
			Text: x.s.Judge.Redact(text.Ellipsis(text.PlainLine(a.Text), maxEventText)),
		}
		for _, c := range a.Calls[:min(len(a.Calls), 10)] {
			data.Tools = append(data.Tools, text.PlainLine(c.Tool))
		}
		x.activity = append(x.activity, sse.New(agentEvent, data))
	}
}

// takeActivity returns the events of agents that are not stored yet.
func (x *execution) takeActivity() []sse.Event {
	x.activityMu.Lock()
	defer x.activityMu.Unlock()
	events := x.activity
	x.activity = nil
	return events
}
