package runs

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/attempt"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/taskfile"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// An execution is a run while a worker makes its trials.
type execution struct {
	s         *Service
	run       Run
	cases     []suites.Case
	checks    []func() (verify.Check, error) // of deterministic cases, compiled at first use
	skills    map[Arm]*loadedSkill
	made      map[TrialKey]bool // by this worker or an earlier one
	events    *eventLog
	tailLimit int
	prices    pricing.Table
	attempts  *attempt.Maker     // nil if no case has an agent
	budget    *spend.Budget      // what the run's requests cost, and may cost
	resources taskfile.Resources // the most that a program gets; zero fields: the defaults
	dir       string             // for skills and what programs write; "" if none is run
	// sliceEnds is when the turn may yield to runs of other organisations.
	sliceEnds time.Time
	yield     atomic.Bool // end the turn: another organisation's run waits for the worker

	distractors map[string]string // folders of skills, by name; nil without agents
	activity    attempt.Activity
}

// A loadedSkill is the skill of one arm. For WithoutSkill it is zero.
type loadedSkill struct {
	judge.Skill
	content *skillpkg.Package // nil if no case needs it
	text    string            // of SKILL.md
	dir     string            // of its unpacked files; "" if no program is run
}

// prepare reads what the trials of a run need. The error is a NotFound if the skill no
// longer exists.
func (s *Service) prepare(ctx context.Context, r Run) (x *execution, err error) {
	x = &execution{s: s, run: r, skills: map[Arm]*loadedSkill{}, made: map[TrialKey]bool{}, tailLimit: r.tailLimit()}
	x.activity.Redact = x.redact
	if x.cases, err = r.cases(); err != nil {
		return nil, err
	}
	// Checks are compiled at first use: a resumed run may need only a few of them.
	x.checks = make([]func() (verify.Check, error), len(x.cases))
	for i, c := range x.cases {
		x.checks[i] = sync.OnceValues(func() (verify.Check, error) { return compileCheck(c) })
	}
	x.prices = pricing.Embedded()
	if s.Prices != nil {
		if x.prices, err = s.Prices.Table(ctx, r.OrgID); err != nil {
			return nil, err
		}
	}
	suite, err := s.Suites.Get(ctx, r.OrgID, r.SuiteID)
	if err != nil {
		return nil, err
	}
	x.resources = suite.Resources()
	made, err := verdictsOfRun(ctx, s.DB, r.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range made {
		x.made[t.TrialKey] = true
	}
	if err := x.openBudget(ctx, made); err != nil {
		return nil, err
	}
	x.events = newEventLog(r, x.cases, made)
	if err := x.loadSkills(ctx); err != nil {
		x.close()
		return nil, err
	}
	x.sliceEnds = time.Now().Add(cmp.Or(s.slice, defaultSlice))
	return x, nil
}

// close releases the skills' content and removes the execution's folder.
func (x *execution) close() {
	for _, skill := range x.skills {
		if skill.content != nil {
			_ = skill.content.Close() // it was only read
		}
	}
	if x.dir == "" {
		return
	}
	if err := sandbox.Remove(x.dir); err != nil {
		x.s.Log.Warn("a run's folder is left over", "run", x.run.ID, "error", err)
	}
	x.s.folders.Delete(x.dir)
}

// missing returns the keys of the trials to make, case by case.
func (x *execution) missing() []TrialKey {
	var keys []TrialKey
	for i := range x.cases {
		for _, arm := range x.run.Baseline.Arms() {
			for n := range x.run.Trials {
				if key := (TrialKey{Case: i, Arm: arm, N: n + 1}); !x.made[key] {
					keys = append(keys, key)
				}
			}
		}
	}
	return keys
}

// loadSkills reads the skills of all arms. Their content is read only if a case needs
// it, and unpacked only if a case runs a command or an agent.
func (x *execution) loadSkills(ctx context.Context) error {
	content, files, agents := false, false, false
	for _, c := range x.cases {
		agents = agents || x.run.agentOf(c) != nil
		files = files || agents || len(c.Subject.Command) > 0
		content = content || files || c.Subject.Prompt != nil || c.Kind == suites.TaskPackage
	}
	if files {
		if err := x.makeDir(); err != nil {
			return err
		}
	}
	if agents {
		if err := x.prepareAttempts(ctx); err != nil {
			return err
		}
	}
	x.skills[WithoutSkill] = &loadedSkill{}
	pinned := map[Arm]*subject.Pinned{WithSkill: &x.run.Subject, WithPrevious: x.run.Previous}
	arms := x.run.Baseline.Arms()
	if x.run.Baseline == NoSkillOnly && x.run.Subject.Name != "" {
		arms = []Arm{WithSkill} // its name: traces of it would contaminate the trials
	}
	for _, arm := range arms {
		if arm == WithoutSkill {
			continue
		}
		skill, err := x.s.Subjects().FindPinned(ctx, x.run.OrgID, *pinned[arm])
		if err != nil {
			return err
		}
		loaded := &loadedSkill{Skill: judge.Skill{Name: skill.Name, Description: skill.Description}}
		x.skills[arm] = loaded
		// On a catalogue the model sees names and truncated descriptions as they were
		// pinned; trigger queries need no content.
		if x.run.Catalog != nil {
			listed, err := catalogue.OfRun(ctx, x.s.DB, x.run.ID)
			if err != nil {
				return err
			}
			loaded.Skill, x.run.Distractors = catalogue.Without(listed, skill.Name)
			continue
		}
		if !content {
			continue
		}
		if loaded.content, loaded.text, err = skill.Read(ctx); err != nil {
			return err
		}
		if files {
			if err := loaded.unpack(ctx, filepath.Join(x.dir, string(arm))); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeDir creates the execution's folder. The sandbox refuses paths with
// symbolic links, and its user, who is another one, must be able to enter.
func (x *execution) makeDir() error {
	base, err := x.s.scratch()
	if err != nil {
		return err
	}
	if x.dir, err = os.MkdirTemp(base, dirPrefix); err != nil {
		return err
	}
	// Registered, so that Sweep spares it while the run goes on.
	x.s.folders.Store(x.dir, nil)
	return os.Chmod(x.dir, 0o755)
}

// dirPrefix is the prefix of the executions' folders, by which Sweep finds them.
const dirPrefix = "eval-run-"

func (s *Service) scratch() (string, error) {
	return filepath.EvalSymlinks(cmp.Or(s.Scratch, os.TempDir()))
}

// Sweep removes the folders that runs left behind when their worker was killed. Those
// of executions in this process are spared.
func (s *Service) Sweep() error {
	base, err := s.scratch()
	if err != nil {
		return err
	}
	_, err = sandbox.Sweep(base, dirPrefix, &s.folders)
	return err
}

// unpack writes the skill's files into a new folder.
func (l *loadedSkill) unpack(ctx context.Context, dir string) (err error) {
	defer fault.Wrap(&err, "files of %s", l.Name)
	l.dir = dir
	return attempt.Unpack(ctx, l.content, dir)
}
