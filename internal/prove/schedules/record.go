package schedules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
)

// A Run is a run of a schedule, as it was recorded when it ended.
type Run struct {
	ID         string // may be deleted with its suite
	ScheduleID string
	DueAt      *time.Time  // nil for one that a person started
	Status     runs.Status // Running until it is recorded
	MaxMicros  *int64      // its limit
	Passed     int         // trials with the skill
	Decided    int
	// Counts reports that the run is evidence: it made all of its trials, and most have a verdict.
	Counts     bool
	Reference  *float64 // that it is compared with
	CostMicros *int64   // nil if a price is unknown
	Conditions Conditions
	Changed    []api.ScheduleChange // since the run before
	StartedAt  time.Time
	EndedAt    *time.Time
}

// Deleted is the status of a run that was deleted with its suite before it was over.
const Deleted runs.Status = "deleted"

// Score is the share of the decided trials that passed; nil without one.
func (r Run) Score() *float64 {
	if r.Decided == 0 {
		return nil
	}
	score := float64(r.Passed) / float64(r.Decided)
	return &score
}

// A Condition is something that a run was made with, of which two runs may differ.
type Condition struct {
	What string `json:"what"` // of the API
	Text string `json:"text"` // for people
	Key  string `json:"key"`  // equal where it is the same; "" if it is not known
}

// Conditions are those of one run, in the order in which people look for a reason: what they
// changed themselves comes first.
type Conditions []Condition

// key returns the key of a condition.
func (c Conditions) key(what string) string {
	for _, one := range c {
		if one.What == what {
			return one.Key
		}
	}
	return ""
}

// none stands for what a run does without: an agent, a judge.
const none = "none"

// conditionsOf returns those of a run that ended. What it doesn't know, e.g. which model would
// have answered where every trial failed, is taken from the run before.
func conditionsOf(r runs.Run, t runs.Traits, before Conditions) Conditions {
	skill := Condition{"skill", strings.TrimSpace(r.Subject.Name + " " + r.Subject.Label), r.Subject.ContentHash}
	for _, needed := range r.Subject.Requires {
		skill.Key += " " + needed.ContentHash
	}
	suite := Condition{What: "suite"}
	if v := r.Terms.SuiteVersion; v > 0 {
		suite.Text = "version " + strconv.FormatInt(v, 10)
		suite.Key = r.SuiteID + " " + strconv.FormatInt(v, 10)
	}
	agent := known("agent", t.Agents)
	if agent.Key == "" && r.Terms.Agent == nil {
		agent.Text, agent.Key = none, none
	}
	judge := known("judge", t.Judges)
	if r.Judge == nil {
		judge.Text, judge.Key = none, none
	} else if judge.Key != "" {
		judge.Text += ", prompts " + r.Judge.PromptVersion
		judge.Key += " " + r.Judge.API + " " + r.Judge.PromptVersion
	}
	all := Conditions{skill, suite, agent, known("model", t.Models), known("image", t.Images), judge}
	for i, c := range all {
		at := slices.IndexFunc(before, func(b Condition) bool { return b.What == c.What })
		if c.Key == "" && at >= 0 {
			all[i] = before[at]
		}
	}
	return all
}

func known(what string, names []string) Condition {
	all := strings.Join(names, ", ")
	return Condition{what, all, all}
}

// Since returns what differs from earlier conditions. What is not known on one side did not
// change, as far as anybody can tell.
func (c Conditions) Since(before Conditions) []api.ScheduleChange {
	all := []api.ScheduleChange{}
	for _, is := range c {
		at := slices.IndexFunc(before, func(b Condition) bool { return b.What == is.What })
		if at < 0 || is.Key == "" || before[at].Key == "" || is.Key == before[at].Key {
			continue
		}
		was := before[at]
		if was.Text == is.Text { // e.g. two snapshots of a source
			was.Text, is.Text = was.Text+" ("+brief(was.Key)+")", is.Text+" ("+brief(is.Key)+")"
		}
		all = append(all, api.ScheduleChange{What: is.What, Before: was.Text, After: is.Text})
	}
	return all
}

// brief is the beginning of a hash.
func brief(hash string) string { return hash[:min(len(hash), 12)] }

// A Reference is the first runs of a skill on a suite: what later ones are compared with.
type Reference struct {
	Skill, Suite         string // keys of conditions
	Runs, Trials, Passed int
	Conditions           Conditions // of the last of the runs
	EndedAt              time.Time  // of the last of the runs
}

// Score is the share of the trials that passed.
func (r Reference) Score() float64 { return float64(r.Passed) / float64(r.Trials) }

const (
	minReferenceRuns   = 3
	minReferenceTrials = 30
)

func (r *Reference) of(c Conditions) bool {
	return r != nil && r.Skill == c.key("skill") && r.Suite == c.key("suite")
}

// add records a run that is over in the references of its schedule. When the skill or the suite
// changes, the old reference holds until the new one is complete: a version that is worse shows.
func (s *Schedule) add(r *Run) {
	if s.Reference != nil {
		score := s.Reference.Score()
		r.Reference = &score
	}
	switch {
	case !r.Counts:
		return
	case s.Reference.of(r.Conditions):
		s.building = nil
		return
	case !s.building.of(r.Conditions):
		s.building = &Reference{Skill: r.Conditions.key("skill"), Suite: r.Conditions.key("suite")}
	}
	b := s.building
	b.Runs, b.Trials, b.Passed = b.Runs+1, b.Trials+r.Decided, b.Passed+r.Passed
	b.Conditions, b.EndedAt = r.Conditions, *r.EndedAt
	if b.Runs >= minReferenceRuns && b.Trials >= minReferenceTrials {
		s.Reference, s.building = b, nil
	}
}

// end records how a run ended.
func (r *Run) end(is runs.Run, t runs.Traits, before Conditions, at time.Time) {
	r.Status, r.EndedAt = is.Status, &at
	r.Passed, r.Decided = t.Passed, t.Decided
	r.Counts = is.Status == runs.Succeeded && t.Decided > 0 && is.Summary.Reliable()
	r.Conditions = conditionsOf(is, t, before)
	r.Changed = r.Conditions.Since(before)
	if c := cmp.Or(is.Cost, &spend.Cost{}); c.Unpriced == 0 {
		r.CostMicros = &c.Micros
	}
}
