package demo

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// recorded is a suite with runs that an agent made. The trials in runs.json were made by
// Claude Code 2.1.327 in the sandbox of this service, against a scripted model: what the
// model answers was written for the demo; what the agent did, and the tokens that this
// takes, is as it was stored.
type recorded struct {
	Name, Skill string
	Agent       suites.Agent
	Cases       []suites.Fields
	Runs        []struct {
		Version  string
		DaysAgo  int `json:"days_ago"`
		Baseline runs.Baseline
		Trials   int
		Done     []runs.RecordedTrial
	}
}

// addRecordings adds the suite of the data and its runs, which show how a skill does from
// version to version, and against no skill.
func (f *filling) addRecordings(ctx context.Context) error {
	r := read[recorded]("runs.json")
	suite, err := f.Suites.Create(ctx, f.people[0], suites.NewSuite{
		Name: r.Name, SourceKind: suites.Manual, VerifierKind: suites.Deterministic, SupportsNoSkill: new(true), Cases: r.Cases,
	})
	if err != nil {
		return err
	}
	for _, run := range r.Runs {
		_, err := f.Runs.AddRecorded(ctx, f.people[0], suite.ID, runs.NewRun{
			Subject: subject.Ref{EntryID: f.find(r.Skill).entry.ID, Version: run.Version}, Baseline: run.Baseline,
			Trials: run.Trials, Agent: &r.Agent,
		}, f.now.AddDate(0, 0, -run.DaysAgo), run.Done)
		if err != nil {
			return err
		}
	}
	return nil
}

// rewrite returns the description that an editor wrote for a skill, which improve runs try
// before the words of the built-in writer.
func (f *filling) rewrite(r judge.RewriteRequest) (description, reason string) {
	i := slices.IndexFunc(f.skills, func(p *published) bool { return p.Name == r.Skill.Name })
	if i < 0 {
		return "", ""
	}
	return f.skills[i].Better.Description, f.skills[i].Better.Reason
}
