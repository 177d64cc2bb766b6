// Package trials opens the trials of runs as sessions: what was asked and done, which
// files were left, and what the verifier reported. A trial isn't a session of
// production, so it counts in no figure of skills, sessions or costs. The package owns
// no tables.
package trials

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/workdir"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// Service opens trials.
type Service struct {
	Runs       *runs.Service
	Recordings *recording.Store
	Jobs       *jobs.Queue
}

// A Key names a trial.
type Key struct {
	RunID, CaseID string
	Arm           runs.Arm
	N             int // from 1
}

// A Trial is a trial with everything that is known about it.
type Trial struct {
	runs.Trial
	Run  runs.Run
	Case suites.Case
	// Asked is the instruction; "" if the case has none.
	Asked string
	// Session has what was done, with all events.
	Session sessions.Detail
	// Files are those that the agent changed, by path. MoreFiles means that there may
	// be others.
	Files     []workdir.File
	MoreFiles bool
}

// Get returns a trial of the organisation. The error is a NotFound if it doesn't exist,
// or hasn't been made yet.
func (s *Service) Get(ctx context.Context, orgID string, k Key) (t Trial, err error) {
	defer fault.Wrap(&err, "trial %d of run %s", k.N, k.RunID)
	if k.CaseID == "" { // "" would mean all cases
		return t, fault.New(fault.NotFound, "Case not found")
	}
	report, err := s.Runs.Report(ctx, orgID, k.RunID, k.CaseID)
	if err != nil {
		return t, err
	}
	found := slices.IndexFunc(report.Results[0].Trials, func(t runs.Trial) bool { return t.Arm == k.Arm && t.N == k.N })
	if found < 0 {
		return t, fault.New(fault.NotFound, "Trial not found")
	}
	t = Trial{Trial: report.Results[0].Trials[found], Run: report.Run, Case: report.Cases[0]}
	t.Asked = Asked(t.Case)
	t.Session.Session = t.session()
	// Without an agent, or from before recordings were kept.
	if t.Evidence.Recording == "" {
		t.Session.Steps = t.steps()
		return t, nil
	}
	ref, err := s.Recordings.Find(ctx, orgID, t.Evidence.Recording)
	if err != nil {
		return t, err
	}
	r, err := s.Recordings.Get(ctx, ref)
	if err != nil {
		return t, err
	}
	t.add(r)
	return t, nil
}

// A Product is what a trial left: its output and the files that its agent changed, by path.
type Product struct {
	Output string
	Files  []workdir.File
}

// Products returns those of all trials that runs made of the cases from first to last, with two
// queries.
func (s *Service) Products(
	ctx context.Context, orgID string, runIDs []string, first, last int,
) (all map[string]map[runs.TrialKey]Product, err error) {
	outputs, err := runs.Outputs(ctx, s.Runs.DB, orgID, runIDs, first, last)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, o := range outputs {
		if o.Recording != "" {
			ids = append(ids, o.Recording)
		}
	}
	refs := map[string]recording.Ref{}
	if len(ids) > 0 {
		if refs, err = recording.FindAll(ctx, s.Runs.DB, orgID, ids); err != nil {
			return nil, err
		}
	}
	all = map[string]map[runs.TrialKey]Product{}
	for _, o := range outputs {
		p := Product{Output: o.Text}
		if ref, ok := refs[o.Recording]; ok {
			r, err := s.Recordings.Get(ctx, ref)
			if err != nil {
				return nil, err
			}
			p.Files = r.Files
		}
		if all[o.RunID] == nil {
			all[o.RunID] = map[runs.TrialKey]Product{}
		}
		all[o.RunID][o.TrialKey] = p
	}
	return all, nil
}

// Session implements sessions.Trials: the id of a recording opens its trial like a
// session.
func (s *Service) Session(ctx context.Context, orgID, id string) (sessions.Detail, error) {
	key, err := s.Find(ctx, orgID, id)
	if err != nil {
		return sessions.Detail{}, err
	}
	t, err := s.Get(ctx, orgID, key)
	return t.Session, err
}

// Find returns the trial whose recording has this id. The error is a NotFound.
func (s *Service) Find(ctx context.Context, orgID, id string) (Key, error) {
	ref, err := s.Recordings.Find(ctx, orgID, id)
	return Key{RunID: ref.RunID, CaseID: ref.CaseID, Arm: runs.Arm(ref.Variant), N: ref.N}, err
}

// Asked returns what a case asks for: its instruction, or else its command line.
func Asked(c suites.Case) string {
	switch {
	case c.Kind == suites.TriggerQuery:
		return c.Query
	case c.Kind == suites.TaskPackage:
		return c.Package.Instruction
	case c.Subject.Prompt != nil:
		return *c.Subject.Prompt
	}
	return strings.Join(c.Subject.Command, " ")
}

// session returns the trial's session as far as it follows from the trial itself. If
// there is a recording, add corrects it.
func (t Trial) session() sessions.Session {
	one := sessions.Session{
		SessionID: t.Evidence.Recording, StartedAt: t.Run.CreatedAt, HasContent: true,
		Skills: []sessions.Skill{},
	}
	if t.Run.StartedAt != nil {
		one.StartedAt = *t.Run.StartedAt
	}
	if t.Asked != "" {
		one.Turns = 1
	}
	one.LastAt = one.StartedAt.Add(t.Duration)
	one.EndedAt = &one.LastAt
	skill := t.Run.Subject
	if t.Arm == runs.WithPrevious && t.Run.Previous != nil {
		skill = *t.Run.Previous
	}
	if t.Arm != runs.WithoutSkill {
		one.Skills = append(one.Skills, sessions.Skill{Name: skill.Name, Offered: true, Version: skill.Label})
	}
	if a := t.Evidence.Agent; a != nil {
		one.Agent, one.ToolCalls, one.Exact = a.Name, int64(a.ToolCalls), true
		for i := range one.Skills {
			one.Skills[i].Activated = a.HasActivated()
		}
	}
	return one
}

// add replaces the estimates of session by what was recorded, and adds steps and files.
func (t *Trial) add(r recording.Recording) {
	one := &t.Session
	one.StartedAt, one.LastAt = r.StartedAt, r.EndedAt
	one.ToolCalls, one.ToolErrors, one.Micros, one.Truncated = int64(r.ToolCalls), int64(r.ToolErrors), r.Micros, r.MoreSteps
	one.Turns = 0
	for i, s := range r.Steps {
		step := sessions.Step{
			ID: stepID(i), Kind: sessions.Kind(s.Kind), At: s.At, Name: s.Name, Duration: s.Took, OK: s.OK,
			Tokens: s.Tokens, Micros: s.Micros,
		}
		if s.Text != "" {
			step.Text = &s.Text
		}
		if s.Kind == recording.Prompt {
			one.Turns++
		}
		one.Steps = append(one.Steps, step)
	}
	one.Events = int64(len(one.Steps))
	t.Files, t.MoreFiles = r.Files, r.MoreFiles
}

// stepID returns an id by which the steps sort in their order.
func stepID(i int) string { return fmt.Sprintf("%06d", i) }

// steps reconstructs what is known of a trial without a recording. The times of its
// steps are unknown: all have that of its start.
func (t Trial) steps() (all []sessions.Step) {
	at := t.Session.StartedAt
	add := func(s sessions.Step, text string) {
		s.ID, s.At = stepID(len(all)), at
		if text != "" {
			s.Text = &text
		}
		all = append(all, s)
	}
	if t.Asked != "" {
		add(sessions.Step{Kind: sessions.Prompt}, t.Asked)
	}
	switch e := t.Evidence; {
	case t.Verdict == runs.Skipped:
	case e.Agent != nil:
		for _, c := range e.Agent.Calls {
			add(sessions.Step{Kind: sessions.Tool, Name: c.Tool}, c.Detail)
		}
	case len(t.Case.Subject.Command) > 0:
		ok := e.ExitCode != nil && *e.ExitCode == 0
		add(sessions.Step{Kind: sessions.Tool, Name: t.Case.Subject.Command[0], Duration: &t.Duration, OK: &ok}, t.OutputTail)
	case e.Producer != nil:
		add(answerOf(*e.Producer), t.OutputTail)
	case t.Case.Kind == suites.TriggerQuery && e.Judge != nil:
		add(answerOf(*e.Judge), e.Judge.Raw)
	case t.Case.Subject.Output != nil:
		add(sessions.Step{Kind: sessions.Response}, t.OutputTail)
	}
	return all
}

// answerOf returns the step of a model's answer.
func answerOf(r judge.Record) sessions.Step {
	took := time.Duration(r.LatencyMS) * time.Millisecond
	step := sessions.Step{Kind: sessions.Response, Name: r.Model, Duration: &took}
	if tokens := r.InputTokens + r.OutputTokens; tokens > 0 {
		step.Tokens = &tokens
	}
	return step
}

// sweep is the job that collects the garbage of recordings.
type sweep struct{}

// Kind names the job.
func (sweep) Kind() string { return "evals.sweep-recordings" }

// Register makes the queue run the jobs of trials.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ sweep) error { return s.Recordings.Sweep(ctx, blob.OrphanAge) })
	s.Jobs.Every(blob.OrphanAge, sweep{})
}
