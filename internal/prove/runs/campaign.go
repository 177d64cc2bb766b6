package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/spend"
)

// A Campaign is the runs that one cause needs, e.g. a gate those of both versions, or an improve
// run those of its candidates. The cause has a table that says what each run is for (Purpose), and
// a job that makes one step in each call: it sums the runs up (LookAt) and, while one is under way,
// comes back later (Poll). Otherwise it plans the runs of the next step (Service.Plan), and starts
// them in the transaction that changes the cause (StartPlanned). CancelAll ends them with the cause.
type Campaign struct {
	Runs    map[string]Run // by id
	Over    bool           // no run is under way
	Deleted bool           // a run was deleted, together with its suite
	Stopped []Run          // those that are over and have not succeeded, in the order of the purposes
	Done    int            // trials
	// Cost and StartedAt leave out reused runs. They are summed up anew each time, so that a step
	// that is repeated counts nothing twice.
	Cost      spend.Cost
	StartedAt *time.Time // of the first trial: waiting for a worker is not the campaign's time
}

// A Purpose says what a run is for: it is a row of the cause's table.
type Purpose interface {
	// Made returns the id of the run, and whether an earlier campaign made it and paid for it.
	Made() (runID string, reused bool)
	// Insert writes the row, and reports false if there is one: another worker has made the step.
	Insert(ctx context.Context, tx *store.Tx) (isNew bool, err error)
}

// A Planned run is one that a campaign is about to start, or to share with an earlier one.
type Planned[P Purpose] struct {
	For P
	Run *Run // nil if it is shared
}

// StartPlanned writes planned runs with their purposes and jobs, so that each run that costs money
// belongs to a cause that can cancel it. It reports false where another worker has started them, and
// an error, which undoes all of them, where one has started some: a step is made whole. The cause is
// locked.
func StartPlanned[P Purpose](ctx context.Context, tx *store.Tx, s *Service, all []Planned[P]) (bool, error) {
	for i, p := range all {
		isNew, err := p.For.Insert(ctx, tx)
		switch {
		case err != nil:
			return false, err
		case !isNew && i > 0:
			return false, fmt.Errorf("run %d of %d of this step was started before", i+1, len(all))
		case !isNew:
			return false, nil
		}
		if p.Run == nil {
			continue
		}
		if err := s.Add(ctx, tx, *p.Run); err != nil {
			return false, err
		}
	}
	return true, nil
}

// LookAt returns where the runs of a cause stand.
func LookAt[P Purpose](ctx context.Context, s *Service, orgID string, all []P) (c Campaign, err error) {
	ids := make([]string, len(all))
	for i, p := range all {
		ids[i], _ = p.Made()
	}
	if c.Runs, err = ByID(ctx, s.DB, orgID, ids); err != nil {
		return c, err
	}
	c.Over = true
	for i, p := range all {
		r, ok := c.Runs[ids[i]]
		if !ok {
			c.Deleted = true
			continue
		}
		c.Over = c.Over && r.Status.Over()
		c.Done += r.Done
		if r.Status.Over() && r.Status != Succeeded {
			c.Stopped = append(c.Stopped, r)
		}
		if _, reused := p.Made(); reused {
			continue
		}
		if r.StartedAt != nil && (c.StartedAt == nil || r.StartedAt.Before(*c.StartedAt)) {
			c.StartedAt = r.StartedAt
		}
		if r.Cost != nil {
			c.Cost.Add(*r.Cost)
		}
	}
	return c, nil
}

// CancelAll cancels the runs of a cause. Those that are over or were deleted are left alone.
func CancelAll[P Purpose](ctx context.Context, s *Service, orgID string, all []P) error {
	for _, p := range all {
		id, _ := p.Made()
		if _, err := s.Cancel(ctx, orgID, id); err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// Elapsed is for how long a cause has been running; 0 before its first runs are started.
func Elapsed(startedAt *time.Time) time.Duration {
	if startedAt == nil {
		return 0
	}
	return time.Since(*startedAt)
}

// Poll makes the job of a cause look at its runs again after a twentieth of the time so far: the
// outcome then comes about 5 % later than it could, and a long campaign costs few queries.
func Poll(startedAt *time.Time, least, most time.Duration) error {
	return jobs.Snooze(min(max(Elapsed(startedAt)/20, least), most))
}
