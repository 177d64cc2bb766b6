package evals

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/whetstone-dev/whetstone/internal/suites/verify"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/judge"
	"github.com/whetstone-dev/whetstone/internal/sandbox"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// An execution is a run while a process works on it.
type execution struct {
	s      *Service
	run    Run
	cases  []Case
	checks []func() (verify.Check, error) // compiled at first use, of cases that have one
	skills map[Variant]*loaded
	made   map[Unit]bool
	story  *story
	tail   int
	folder string      // for skills and what commands write
	yield  atomic.Bool // another organisation's run shall have the worker
}

// loaded is a skill that trials are made with. Of WithoutSkill it is empty.
type loaded struct {
	judge.Skill
	content *skillpkg.Package // nil if no case needs it
	text    string            // of SKILL.md
	folder  string            // of its files; "" if no command is run
}

// prepare reads what trials need. The error is of kind NotFound if the skill is
// gone.
func (s *Service) prepare(ctx context.Context, r Run) (x *execution, err error) {
	x = &execution{s: s, run: r, skills: map[Variant]*loaded{}, made: map[Unit]bool{}, tail: r.tailLimit()}
	if x.cases, err = r.cases(); err != nil {
		return nil, err
	}
	x.checks = make([]func() (verify.Check, error), len(x.cases))
	for i, c := range x.cases {
		x.checks[i] = sync.OnceValues(c.check)
	}
	made, err := verdictsOfRun(ctx, s.DB, r.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range made {
		x.made[t.Unit] = true
	}
	x.story = newStory(r, x.cases, made)
	if err := x.load(ctx); err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

// close gives back what the execution holds and removes what it has put on the
// disk.
func (x *execution) close() {
	for _, l := range x.skills {
		if l.content != nil {
			_ = l.content.Close() // it was only read
		}
	}
	if x.folder == "" {
		return
	}
	if err := sandbox.Remove(x.folder); err != nil {
		x.s.Log.Warn("a run's folder is left over", "run", x.run.ID, "err", err)
	}
}

// missing are the units without a trial, case by case.
func (x *execution) missing() []Unit {
	var units []Unit
	for i := range x.cases {
		for _, v := range x.run.Baseline.variants() {
			for n := range x.run.Trials {
				if u := (Unit{Case: i, Variant: v, N: n + 1}); !x.made[u] {
					units = append(units, u)
				}
			}
		}
	}
	return units
}

// check compiles what decides the case, if that is a program.
func (c Case) check() (verify.Check, error) {
	switch c.Kind {
	case ExactMatch:
		by := make([]verify.Normalization, len(c.Normalize))
		for i, n := range c.Normalize {
			by[i] = verify.Normalization(n)
		}
		return verify.Exact(c.Expected, by)
	case JSONSchema:
		return verify.Schema(c.Schema)
	case BooleanAssertion:
		return verify.Assertion(c.Assertion)
	case TriggerQuery, LLMRubric, TaskPackage:
	}
	return nil, fmt.Errorf("a case of kind %s has no check", c.Kind)
}

// load reads the skills that trials are made with, and their content if a case
// needs it.
func (x *execution) load(ctx context.Context) error {
	content, commands := false, false
	for _, c := range x.cases {
		commands = commands || len(c.Subject.Command) > 0
		content = content || commands || c.Subject.Prompt != nil || c.Kind == TaskPackage
	}
	if commands {
		if err := x.makeFolder(); err != nil {
			return err
		}
	}
	x.skills[WithoutSkill] = &loaded{}
	tested := map[Variant]*Tested{WithSkill: &x.run.Subject, WithPrevious: x.run.Previous}
	for _, v := range x.run.Baseline.variants() {
		if v == WithoutSkill {
			continue
		}
		skill, err := x.s.Subjects.Subject(ctx, x.run.OrgID, tested[v].Pin)
		if err != nil {
			return err
		}
		if skill.ContentHash != tested[v].ContentHash {
			return fault.New(fault.NotFound, "the content of %s is not the one that the run was made for", skill.Name)
		}
		x.skills[v] = &loaded{Skill: judge.Skill{Name: skill.Name, Description: skill.Description}}
		if !content {
			continue
		}
		if err := x.skills[v].open(ctx, skill); err != nil {
			return err
		}
		if commands {
			if err := x.skills[v].unpack(ctx, filepath.Join(x.folder, string(v))); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeFolder makes the execution's folder. The sandbox refuses paths with
// links, and its user must be able to pass through.
func (x *execution) makeFolder() error {
	folder, err := os.MkdirTemp(x.s.Scratch, "eval-run-*")
	if err != nil {
		return err
	}
	x.folder = folder
	if x.folder, err = filepath.EvalSymlinks(folder); err != nil {
		return err
	}
	return os.Chmod(x.folder, 0o755) //nolint:gosec // see above
}

// open reads a skill's content.
func (l *loaded) open(ctx context.Context, skill Skill) (err error) {
	defer fault.Wrap(&err, "content of %s", skill.Name)
	if l.content, err = skill.Open(ctx); err != nil {
		return err
	}
	if err := l.content.RequireSkill(); err != nil {
		return err
	}
	text, err := l.content.ReadFile(l.content.SkillPath)
	l.text = string(text)
	return err
}

// unpack writes the skill's files into a new folder.
func (l *loaded) unpack(ctx context.Context, folder string) (err error) {
	defer fault.Wrap(&err, "files of %s", l.Name)
	if err := os.Mkdir(folder, 0o755); err != nil { //nolint:gosec // the sandbox's user reads it
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	l.folder = folder
	return errors.Join(skillpkg.Unpack(ctx, l.content, root), root.Close())
}
