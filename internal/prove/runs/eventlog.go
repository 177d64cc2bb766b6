package runs

import (
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/sse"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// The names of events.
const (
	progressEvent = "progress"
	caseEvent     = "case"
	// StatusEvent says that a run has begun or is over. The last one is the end
	// of the stream.
	StatusEvent = "status"
)

// Progress counts trials.
type Progress = api.EvalProgress

// progressEvery bounds the rate of progress events, each of which is a row.
const progressEvery = time.Second

// An eventLog derives the events of a run from its trials while a worker makes
// them. It is used by one goroutine.
type eventLog struct {
	cases        []suites.Case
	main         Arm // whose verdicts are the cases'
	skill        []tally
	baseline     []tally
	pending      []int // trials of each case that are missing
	lastProgress time.Time
}

// newEventLog starts from the trials that earlier turns or workers have made.
func newEventLog(r Run, cases []suites.Case, made []Trial) *eventLog {
	l := &eventLog{
		cases: cases, main: r.Baseline.Arms()[0],
		skill: make([]tally, len(cases)), baseline: make([]tally, len(cases)), pending: make([]int, len(cases)),
	}
	for i := range cases {
		l.pending[i] = r.Trials * len(r.Baseline.Arms())
	}
	l.add(made)                  // their events are in the table already
	l.lastProgress = time.Time{} // the first progress of this turn is due at once
	return l
}

// add counts trials. It returns the cases that they complete, and whether a
// progress event is due.
func (l *eventLog) add(trials []Trial) (finished []int, progressDue bool) {
	for _, t := range trials {
		if t.Arm == l.main {
			l.skill[t.Case].add(t)
		} else {
			l.baseline[t.Case].add(t)
		}
		if l.pending[t.Case]--; l.pending[t.Case] == 0 {
			finished = append(finished, t.Case)
		}
	}
	if progressDue = time.Since(l.lastProgress) >= progressEvery; progressDue {
		l.lastProgress = time.Now()
	}
	return finished, progressDue
}

// caseData is the data of a case event: a case whose trials are all made.
type caseData struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Kind     suites.CaseKind `json:"case_kind"`
	Verdict  *Verdict        `json:"verdict"`
	Score    *float64        `json:"score"`
	Baseline *Verdict        `json:"baseline_verdict"`
	Progress Progress        `json:"progress"`
}

// of returns the events of stored trials: one for each case that they finish, and the
// progress if it is due or the run is complete.
func (l *eventLog) of(finished []int, p Progress, progressDue bool) []sse.Event {
	var all []sse.Event
	for _, i := range finished {
		c := l.cases[i]
		all = append(all, sse.New(caseEvent, caseData{
			ID: c.ID, Name: c.Name, Kind: c.Kind, Progress: p,
			Verdict: l.skill[i].verdict(c.Expectation), Score: l.skill[i].mean(), Baseline: l.baseline[i].verdict(c.Expectation),
		}))
	}
	if progressDue || p.Done == p.Total {
		all = append(all, sse.New(progressEvent, p))
	}
	return all
}

func statusEvent(r Run) sse.Event { return sse.New(StatusEvent, newRunOutput(r)) }
