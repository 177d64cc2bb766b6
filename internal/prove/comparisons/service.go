package comparisons

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/trials"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// Service starts, decides and reports comparisons.
type Service struct {
	DB     *store.DB
	Jobs   *jobs.Queue
	Suites *suites.Service
	Runs   *runs.Service
	Trials *trials.Service // what agents did, for preferences
	Judge  *judge.Judge
	Log    *slog.Logger
}

// planned is the run of an arm, or the one of an earlier comparison that serves for it.
type planned = runs.Planned[Arm]

// Start plans the runs of all arms and starts them. What can't run is a Malformed that names
// the arm, before anything is stored.
func (s *Service) Start(ctx context.Context, caller access.Caller, n New) (c Comparison, err error) {
	defer fault.Wrap(&err, "compare on suite %s", n.SuiteID)
	c, all, err := s.plan(ctx, caller, n)
	if err != nil {
		return c, err
	}
	return c, s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertComparison(ctx, tx, c); err != nil {
			return err
		}
		if _, err := runs.StartPlanned(ctx, tx, s.Runs, all); err != nil {
			return err
		}
		if err := c.audit(ctx, tx, "evals.comparison.start"); err != nil {
			return err
		}
		return s.Jobs.Enqueue(ctx, tx, advance{OrgID: c.OrgID, ID: c.ID}, jobs.Unique(c.ID), jobs.Attempts(runs.MaxStarts))
	})
}

// Estimate returns what Start would take.
func (s *Service) Estimate(ctx context.Context, caller access.Caller, n New) (e api.ComparisonEstimate, err error) {
	defer fault.Wrap(&err, "compare on suite %s", n.SuiteID)
	c, all, err := s.plan(ctx, caller, n)
	if err != nil {
		return e, err
	}
	cost, known := int64(0), !c.Preference
	for _, p := range all {
		if p.Run == nil {
			continue
		}
		calls, err := p.Run.Calls()
		if err != nil {
			return e, err
		}
		e.Trials, e.Calls = e.Trials+p.Run.Total, e.Calls+calls
		if estimate := p.Run.Terms.Estimate; estimate != nil {
			cost += *estimate
		} else if calls > 0 {
			known = false
		}
	}
	if c.Preference {
		pairs := len(c.Arms) * (len(c.Arms) - 1) / 2
		e.Calls += 2 * pairs * (questions(e.Trials/len(c.Arms)) + 2)
	}
	if known {
		e.CostUSD = spend.USD(&cost)
	}
	return e, nil
}

// plan checks a comparison and plans the run of each arm under the same conditions. A run that
// an earlier comparison made under them within reusable serves again.
func (s *Service) plan(ctx context.Context, caller access.Caller, n New) (c Comparison, all []planned, err error) {
	if err := n.check(); err != nil {
		return c, nil, err
	}
	suite, err := s.Suites.Get(ctx, caller.OrgID, n.SuiteID)
	if err != nil {
		return c, nil, err
	}
	if len(suite.Issues) > 0 {
		return c, nil, fault.New(fault.Conflict, "Eval suite cannot be run: %s", suites.IssueText(suite.Issues))
	}
	c = Comparison{
		ID: store.NewID(), OrgID: caller.OrgID, SuiteID: suite.ID, Status: runs.Queued, Trials: n.Trials,
		Preference: n.Preference, Margin: DefaultMargin, MaxMicros: n.MaxMicros, Seed: seedOf(suite),
		CreatedBy: caller.UserID, CreatedAt: store.Now(),
	}
	if c.Trials == 0 {
		c.Trials = DefaultTrials
	}
	if n.Margin != nil {
		c.Margin = *n.Margin
	}
	if c.Preference && s.Judge.Describe().API == judge.Builtin {
		return c, nil, fault.Invalid("preference",
			"preference needs a judge, and the server has no model: see the settings --judge-*")
	}
	// What the arms are compared with: without a skill, its name must not show up either.
	var about subject.Ref
	without := false
	for _, a := range n.Arms {
		without = without || a.NoSkill
		if about == (subject.Ref{}) && !a.NoSkill {
			about = a.Subject
		}
	}
	skills := make([]string, len(n.Arms))
	for i, a := range n.Arms {
		path := fmt.Sprintf("arms.%d", i)
		arm := Arm{Name: a.Name, Subject: a.Subject, comparisonID: c.ID, position: i}
		ask := runs.NewRun{
			Subject: a.Subject, Trials: c.Trials, Baseline: runs.NoBaseline, Seed: c.Seed, Agent: a.Agent,
			MaxMicros: c.MaxMicros, Compared: without && !a.NoSkill,
		}
		if a.NoSkill {
			ask.Subject, ask.Baseline = about, runs.NoSkillOnly
		}
		run, err := s.Runs.Plan(ctx, caller, suite.ID, ask)
		if err != nil {
			return c, nil, ofArm(err, path)
		}
		conditions, err := run.Conditions()
		if err != nil {
			return c, nil, err
		}
		digest := sha256.Sum256([]byte(conditions + "\n" + string(run.Baseline) + "\n" + run.Subject.ContentHash))
		arm.runID, arm.conditions, arm.Agent = run.ID, hex.EncodeToString(digest[:]), run.Terms.Agent
		if !a.NoSkill {
			arm.Subject, arm.Label, skills[i] = run.Subject.Pin, run.Subject.Label, run.Subject.Name
		}
		for k, other := range c.Arms {
			if arm.equal(other) {
				return c, nil, fault.Invalid(path, "%s tries the same as arms.%d: change its version, agent or model", path, k)
			}
		}
		c.Arms = append(c.Arms, arm)
		all = append(all, planned{Run: &run})
	}
	names(c.Arms, skills)
	// One limit for all arms: each may spend what those before it have left, so that none stops while
	// another one has too much, and nothing is spent twice.
	var before []string
	first := *all[0].Run
	for i := range all {
		if !runs.SameCases(first, *all[i].Run) {
			return c, nil, fault.New(fault.Conflict, "The suite was changed at the same moment. Try again.")
		}
		earlier, err := s.reusable(ctx, c, c.Arms[i])
		if err != nil {
			return c, nil, err
		}
		if earlier != "" {
			c.Arms[i].runID, c.Arms[i].reused, all[i].Run = earlier, true, nil
		} else if c.MaxMicros != nil {
			all[i].Run.Terms.After = slices.Clone(before)
			before = append(before, c.Arms[i].runID)
		}
		all[i].For = c.Arms[i]
	}
	return c, all, nil
}

// seedOf returns the seed of a suite's comparisons: all of one version of the suite have the same,
// so that they can share trials.
func seedOf(suite suites.Suite) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", suite.ID, suite.Version))
	return int64(binary.BigEndian.Uint64(sum[:8])%(subject.MaxSeed-1)) + 1
}

// ofArm makes an error about what an arm tries name the arm.
func ofArm(err error, path string) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err
	}
	switch f.Kind {
	case fault.Malformed, fault.NotFound, fault.Conflict, fault.Denied:
		if len(f.Issues) > 0 && len(f.Issues[0].Path) > 0 && f.Issues[0].Path[0] == "agent" {
			path += "." + strings.Join(f.Issues[0].Path, ".")
		}
		return fault.Invalid(path, "%s can't run: %s", path, f.Message)
	default:
		return err
	}
}

// reusableFor is for how long trials serve other comparisons: models drift.
const reusableFor = 24 * time.Hour

// reusable returns the newest run that an earlier comparison made under the conditions of an
// arm; "" if there is none.
func (s *Service) reusable(ctx context.Context, c Comparison, a Arm) (string, error) {
	ids, err := runsLike(ctx, s.DB, c.OrgID, a.conditions, c.CreatedAt.Add(-reusableFor))
	if err != nil || len(ids) == 0 {
		return "", err
	}
	found, err := runs.ByID(ctx, s.DB, c.OrgID, ids)
	if err != nil {
		return "", err
	}
	// Of a run that is made by now, too, the trials count once; one that was given up is no use.
	at := slices.IndexFunc(ids, func(id string) bool {
		r, ok := found[id]
		return ok && r.Status == runs.Succeeded && c.CreatedAt.Sub(r.CreatedAt) <= reusableFor
	})
	if at < 0 {
		return "", nil
	}
	return ids[at], nil
}

// Get returns a comparison of the organisation.
func (s *Service) Get(ctx context.Context, orgID, id string) (Comparison, error) {
	return comparisonByID(ctx, s.DB, orgID, id, "")
}

// A Filter chooses comparisons.
type Filter struct {
	SuiteID, EntryID string      // "" for all
	Status           runs.Status // "" for all
	Before           string      // cursor: the id of the last one of the page before
	Limit            int
}

// List returns at most Limit comparisons, newest first, and whether there are more.
func (s *Service) List(ctx context.Context, orgID string, f Filter) (_ []Comparison, more bool, err error) {
	defer fault.Wrap(&err, "comparisons")
	f.Limit++
	all, err := comparisonsBefore(ctx, s.DB, orgID, f)
	if len(all) < f.Limit {
		return all, false, err
	}
	return all[:f.Limit-1], true, err
}

// Progress returns how many trials of a comparison are made, and of how many.
func (s *Service) Progress(ctx context.Context, of ...Comparison) (map[string]runs.Progress, error) {
	all := map[string]runs.Progress{}
	if len(of) == 0 {
		return all, nil
	}
	var ids []string
	for _, c := range of {
		for _, a := range c.Arms {
			ids = append(ids, a.runID)
		}
	}
	found, err := runs.ByID(ctx, s.DB, of[0].OrgID, ids)
	for _, c := range of {
		var p runs.Progress
		for _, a := range c.Arms {
			p.Done, p.Total = p.Done+found[a.runID].Done, p.Total+found[a.runID].Total
		}
		all[c.ID] = p
	}
	return all, err
}

// Cancel ends a comparison that is not over; its job cancels the runs. Cancelling a cancelled one
// is not an error, cancelling one that is over is a Conflict.
func (s *Service) Cancel(ctx context.Context, orgID, id string) (c Comparison, err error) {
	defer fault.Wrap(&err, "cancel comparison %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if c, err = comparisonByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		if c.Status == runs.Cancelled {
			return nil
		}
		if c.Status.Over() {
			return fault.New(fault.Conflict, "The comparison is already over: it has %s", c.Status)
		}
		at := store.Now()
		c.Status, c.EndedAt = runs.Cancelled, &at
		if err := updateComparison(ctx, tx, c); err != nil {
			return err
		}
		if err := c.audit(ctx, tx, "evals.comparison.cancel"); err != nil {
			return err
		}
		return s.Jobs.Enqueue(ctx, tx, advance{OrgID: c.OrgID, ID: c.ID}, jobs.Unique(c.ID), jobs.Attempts(runs.MaxStarts))
	})
	return c, err
}

func (c Comparison) audit(ctx context.Context, tx *store.Tx, action string) error {
	arms := make([]string, len(c.Arms))
	for i, a := range c.Arms {
		arms[i] = a.Name
	}
	d := audit.Detail{"suite": c.SuiteID, "arms": arms, "trials": c.Trials}
	if most := spend.USD(c.MaxMicros); most != nil {
		d["max_cost_usd"] = *most
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: c.OrgID, Action: action, Target: audit.Target{Kind: "comparison", ID: c.ID}, Detail: d,
	})
}
