package evals

import (
	"encoding/json"
	"time"
)

// The names of events.
const (
	progressName = "progress"
	caseName     = "case"
	statusName   = "status" // the last one ends the story
)

type progress struct {
	Done  int `json:"done"`
	Total int `json:"total"`
}

// progressEvery bounds how often progress is told: more often than people
// look would only fill a table.
const progressEvery = time.Second

// A story tells what becomes of a run's cases while it goes on.
type story struct {
	cases  []Case
	skill  []tally
	base   []tally
	left   []int // trials of each case that are missing
	toldAt time.Time
}

func newStory(r Run, cases []Case, made []Trial) *story {
	s := &story{cases: cases, skill: make([]tally, len(cases)), base: make([]tally, len(cases)), left: make([]int, len(cases))}
	for i := range cases {
		s.left[i] = r.Trials * len(r.Baseline.variants())
	}
	s.add(made)
	s.toldAt = time.Time{}
	return s
}

// add counts trials, and says which cases are finished by them and whether it
// is time to tell the progress.
func (s *story) add(trials []Trial) (finished []int, due bool) {
	for _, t := range trials {
		if t.Variant == WithSkill {
			s.skill[t.Case].add(t)
		} else {
			s.base[t.Case].add(t)
		}
		if s.left[t.Case]--; s.left[t.Case] == 0 {
			finished = append(finished, t.Case)
		}
	}
	if due = time.Since(s.toldAt) >= progressEvery; due {
		s.toldAt = time.Now()
	}
	return finished, due
}

// caseEvent is a case that is finished.
type caseEvent struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Kind     CaseKind `json:"case_kind"`
	Verdict  *Verdict `json:"verdict"`
	Score    *float64 `json:"score"`
	Baseline *Verdict `json:"baseline_verdict"`
	Progress progress `json:"progress"`
}

// events are what is told after trials were written.
func (s *story) events(finished []int, p progress, due bool) []event {
	var all []event
	for _, i := range finished {
		c, t := s.cases[i], s.skill[i]
		all = append(all, newEvent(caseName, caseEvent{
			ID: c.ID, Name: c.Name, Kind: c.Kind, Verdict: t.verdict(c), Score: t.mean(), Baseline: s.base[i].verdict(c), Progress: p,
		}))
	}
	if due || p.Done == p.Total {
		all = append(all, newEvent(progressName, p))
	}
	return all
}

// statusEvent tells that a run has begun or is over.
func statusEvent(r Run) event {
	return newEvent(statusName, newRunOutput(r))
}

func newEvent(name string, data any) event {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // our own structs of numbers and texts
	}
	return event{Name: name, Data: raw}
}
