package runs

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/recording"
)

// A RecordedTrial is a trial that an agent made before, with what it did.
type RecordedTrial struct {
	Case         int                 `json:"case"`
	Arm          Arm                 `json:"arm"`
	N            int                 `json:"n"`
	Verdict      Verdict             `json:"verdict"`
	Score        *float64            `json:"score"`
	Milliseconds int64               `json:"milliseconds"`
	Output       string              `json:"output"`
	Evidence     Evidence            `json:"evidence"`
	Recording    recording.Recording `json:"recording"`
}

// AddRecorded stores a run that began at a time, with trials that were made before: the demo has
// no agent. It takes the steps of a worker, so counts, costs and events are those of any run.
func (s *Service) AddRecorded(
	ctx context.Context, caller access.Caller, suiteID string, n NewRun, at time.Time, made []RecordedTrial,
) (r Run, err error) {
	defer fault.Wrap(&err, "recorded run of suite %s", suiteID)
	agent := n.Agent.WithDefaults()
	n.Agent = nil // its model need not be known here
	if r, err = s.Plan(ctx, caller, suiteID, n); err != nil {
		return r, err
	}
	r.Terms.Agent, r.Judge, r.CreatedAt = &agent, nil, at
	cases, err := r.cases()
	if err != nil {
		return r, err
	}
	x := &execution{s: s, run: r, cases: cases, events: newEventLog(r, cases, nil)}
	trials, end := x.recorded(ctx, made)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := s.insert(ctx, tx, r); err != nil {
			return err
		}
		_, err := markRunStarted(ctx, tx, r.ID, r.CreatedAt)
		return err
	})
	if err != nil {
		return r, err
	}
	if err := x.flush(ctx, trials); err != nil {
		return r, err
	}
	r.FinishedAt = &end
	return r, s.complete(ctx, r, Succeeded)
}

// recorded saves what the agent did in trials, as if the first had begun with the run, and
// returns them with the time when the last one ended.
func (x *execution) recorded(ctx context.Context, made []RecordedTrial) (trials []Trial, end time.Time) {
	at := x.run.CreatedAt
	for _, m := range made {
		did := m.Recording.MovedTo(at)
		t := Trial{
			TrialKey: TrialKey{Case: m.Case, Arm: m.Arm, N: m.N}, Verdict: m.Verdict, Score: m.Score, Evidence: m.Evidence,
			OutputTail: m.Output, Duration: time.Duration(m.Milliseconds) * time.Millisecond, did: &did,
		}
		x.saveRecording(ctx, &t)
		trials = append(trials, t)
		at = at.Add(time.Second) // agents don't all start at once
		if did.EndedAt.After(end) {
			end = did.EndedAt
		}
	}
	return trials, end
}
