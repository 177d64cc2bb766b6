// Package attempt runs a coding agent on one case, in an empty folder or in the
// environment of a task package. It returns what the agent did, or a Problem if the
// attempt has no verdict, e.g. because the model was unreachable or the budget spent.
// It owns no tables.
package attempt

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/agents"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/workdir"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// A Problem is why a trial or a run has no verdict. It is safe to show.
type Problem struct {
	Code    string // for programs, e.g. "case_broken"
	Message string
}

func (p *Problem) Error() string { return p.Code + ": " + p.Message }

// A Defect is something a program did that makes its trial fail, whatever the
// case expects, e.g. exceeding a limit. It must not be an error: errors do not
// count in the pass rate, so a skill that cannot pass could choose them.
type Defect Problem

// NewDefect returns a defect.
func NewDefect(code, message string) *Defect { return &Defect{code, message} }

func (d *Defect) Error() string { return d.Code + ": " + d.Message }

// The codes of problems of agents. A trial stores its problem as "code: message", e.g.
// "agent_timeout: …", so stored trials depend on these values.
const (
	AgentUnavailable = "agent_unavailable"
	AgentFailed      = "agent_failed"
	AgentTimeout     = "agent_timeout"
	ModelUnreachable = "model_unreachable"
	BudgetSpent      = "budget_spent"
	Contaminated     = "contaminated"
	Unsupported      = "unsupported"
)

// A Maker makes the attempts of one run.
type Maker struct {
	Agents *agents.Service
	// Meter counts the requests of all attempts of the run against its budget.
	Meter  *gateway.Meter
	Prices pricing.Table
	// Dir is the run's folder, in which working folders are created.
	Dir string

	images sync.Map // what findTraceInImage found, by folder and skill
}

// A Task is what an agent is asked to do in one attempt, and with which skills.
type Task struct {
	Agent suites.Agent
	// Skill is the name of the skill under test. It isn't installed if Without is set.
	Skill   string
	Without bool
	// Skills are the folders of the skills to install, by name.
	Skills map[string]string
	// Answered, if not nil, is called with each answer of the model, while the agent
	// works.
	Answered func(gateway.Answer)
}

// A Result is what an agent did.
type Result struct {
	Evidence
	// Final is the agent's last message. Files are the texts that it left in its
	// working folder, by path; nil for task packages, whose verifier reads the files.
	Final    string
	Files    map[string]string
	ExitCode int
	Duration time.Duration
	Cost     spend.Cost
	// Recording is what the agent did, step by step.
	Recording recording.Recording

	calls []agents.Call
}

// Evidence is the part of a Result that is stored with the trial and shown with it.
type Evidence struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Model   string `json:"model"`
	// Answered is the model that answered, as its server names it; "" if it does not.
	Answered string `json:"answered,omitempty" doc:"The model that answered, as its server names it"`
	// Session is the agent's own id of the conversation.
	Session string `json:"session,omitempty"`
	// Activated is nil if it is not known.
	Activated *bool    `json:"activated"`
	Turns     int      `json:"turns"`
	ToolCalls int      `json:"tool_calls"`
	Tools     []string `json:"tools"` // each once
	// Calls are the first maxCalls calls of tools.
	Calls []Call `json:"calls,omitempty"`
	// Ended says how the agent ended if not by itself, e.g. "out_of_turns".
	Ended string `json:"ended,omitempty"`
}

// Then joins what an agent did in this step of a task with the next one. Once activated
// stays activated. Unknown in this step and not activated in the next means unknown.
func (e Evidence) Then(next Evidence) Evidence {
	if e.HasActivated() || e.Activated == nil && !next.HasActivated() {
		next.Activated = e.Activated
	}
	next.Answered = cmp.Or(next.Answered, e.Answered)
	next.Turns += e.Turns
	next.ToolCalls += e.ToolCalls
	for _, tool := range slices.Backward(e.Tools) {
		if !slices.Contains(next.Tools, tool) && len(next.Tools) < maxTools {
			next.Tools = slices.Insert(next.Tools, 0, tool)
		}
	}
	next.Calls = append(slices.Clone(e.Calls), next.Calls...)
	next.Calls = next.Calls[:min(len(next.Calls), maxCalls)]
	return next
}

// HasActivated reports whether the skill is known to be activated.
func (e Evidence) HasActivated() bool { return e.Activated != nil && *e.Activated }

// A Call is one tool call of the agent, shortened for display.
type Call struct {
	Tool   string `json:"tool"`
	Skill  string `json:"skill,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Limits of what is stored of an attempt.
const (
	maxTools  = 100
	maxCalls  = 50
	maxDetail = 200
)

// Sample returns the result in the form that checks and graders read.
func (r Result) Sample() verify.Sample {
	tokens := r.Cost.Tokens
	calls := make([]verify.ToolCall, len(r.calls))
	for i, c := range r.calls {
		calls[i] = verify.ToolCall{Tool: c.Tool, Input: c.Input}
	}
	return verify.Sample{
		Output: r.Final, Duration: r.Duration, ExitCode: &r.ExitCode, Files: r.Files,
		Agent: &verify.Agent{
			Activated: r.Activated, Tools: r.Tools, Calls: calls, Turns: r.Turns, CostUSD: r.Cost.USD(),
			Tokens: tokens.Input + tokens.Output + tokens.CacheRead + tokens.CacheWrite,
		},
	}
}

// Prompt lets an agent follow an instruction in an empty folder, which is removed
// afterwards. With an error the result still has the cost of the attempt.
func (m *Maker) Prompt(ctx context.Context, t Task, instruction string) (r Result, err error) {
	work, err := os.MkdirTemp(m.Dir, "work-*")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, sandbox.Remove(work)) }()
	if r, err = m.run(ctx, t, agents.Request{Instruction: instruction, Work: work}, tree{dir: work}); err != nil {
		return r, err
	}
	r.Files, err = workdir.ReadFiles(work)
	return r, err
}

// Package lets an agent work on a task package. In the arm without the skill the
// environment is searched for the skill first: an agent that could find it there would
// spoil the comparison.
func (m *Maker) Package(ctx context.Context, t Task, w taskpkg.Workplace) (Result, error) {
	if t.Without {
		trace, err := findTrace(w.Root, t.Skill)
		if err == nil && trace == "" && w.Spec.Root != nil {
			trace, err = m.findTraceInImage(w.Spec.Root.Dir, t.Skill)
		}
		if err != nil {
			return Result{}, err
		}
		if trace != "" {
			return Result{}, contaminated("the environment has " + trace + ", which names the skill")
		}
	}
	request := agents.Request{Instruction: w.Instruction, Work: w.Dir, Spec: w.Spec}
	// The package's own time limit applies unless the case or the run sets one.
	if w.Timeout > 0 && t.Agent.TimeoutS == 0 {
		request.Timeout = min(w.Timeout, suites.MaxTimeoutS*time.Second)
	}
	return m.run(ctx, t, request, treeOf(w))
}

// run runs the agent and decides whether its outcome can be judged. The changes below
// files are recorded along the way.
func (m *Maker) run(ctx context.Context, t Task, r agents.Request, files tree) (Result, error) {
	if t.Without && isCalled(r.Instruction, t.Skill) {
		return Result{}, contaminated("the instruction calls the skill by its name")
	}
	settings := t.Agent.WithDefaults()
	choice, err := m.Agents.Choose(ctx, settings.Name, settings.Model)
	if err != nil {
		return Result{}, notRun(err)
	}
	r.Choice, r.MaxTurns, r.Skills = choice, settings.MaxTurns, t.Skills
	if r.Timeout == 0 {
		r.Timeout = time.Duration(settings.TimeoutS) * time.Second
	}
	r.Meter, r.Prices, r.Answered, r.Ready = m.Meter, &m.Prices, t.Answered, files.begin
	started := time.Now()
	o, err := m.Agents.Run(ctx, r)
	if err != nil {
		return Result{}, notRun(err)
	}
	result := newResult(t.Skill, choice, o)
	result.Recording = record(t, r, o, started)
	result.Recording.Files, result.Recording.MoreFiles = files.changes()
	return result, problemOf(t, o)
}

// notRun turns an error from before the agent's start into a Problem, if the agent, its
// model or its settings are the reason. Other errors, e.g. of the database, are
// returned as they are.
func notRun(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	switch {
	case !ok:
		return err
	case f.Kind == fault.Unsupported:
		return &Problem{Unsupported, f.Message}
	case f.Kind == fault.NotFound || f.Kind == fault.Unavailable || f.Kind == fault.Malformed:
		return &Problem{AgentUnavailable, f.Message}
	}
	return err
}

// problemOf returns why an outcome has no verdict, or nil. An agent that ran out of
// turns or refused has still left something that can be verified.
func problemOf(t Task, o agents.Outcome) error {
	if o.Failure != nil {
		codes := map[agents.FailureKind]string{
			agents.TimedOut: AgentTimeout, agents.ModelError: ModelUnreachable, agents.OutOfBudget: BudgetSpent,
			agents.Crashed: AgentFailed,
		}
		if code, ok := codes[o.Failure.Kind]; ok {
			return &Problem{code, o.Failure.Message}
		}
	}
	if t.Without && o.Mentions(t.Skill) {
		return contaminated("the agent used or looked for the skill")
	}
	return nil
}

func newResult(skill string, c agents.Choice, o agents.Outcome) Result {
	r := Result{
		Evidence: Evidence{
			Name: c.Agent, Version: c.Version, Model: c.Model, Session: text.Clean(text.Truncate(o.SessionID, maxDetail)),
			Activated: o.Activated(skill), Turns: o.Turns, ToolCalls: len(o.Calls), Tools: o.Tools(),
		},
		Final: o.Final, ExitCode: o.ExitCode, Duration: o.Duration, Cost: spend.OfUsage(o.Usage), calls: o.Calls,
	}
	r.Tools = r.Tools[:min(len(r.Tools), maxTools)]
	for _, a := range o.Answers {
		r.Answered = cmp.Or(a.Model, r.Answered) // the last one: a server may fall back to another in between
	}
	if o.Failure != nil {
		r.Ended = string(o.Failure.Kind)
	}
	for _, c := range o.Calls[:min(len(o.Calls), maxCalls)] {
		r.Calls = append(r.Calls, Call{Tool: c.Tool, Skill: c.Skill, Detail: text.Ellipsis(text.PlainLine(c.Detail), maxDetail)})
	}
	return r
}
