package jobs

import (
	"context"
	"errors"
	"sync"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// Run runs jobs until the context ends. Then it drains: it claims no more,
// gives running jobs the time of Options.Drain, cancels their context, waits
// for them and returns nil. It is called at most once.
func (q *Queue) Run(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "run jobs")
	if len(q.handlers) == 0 {
		return errors.New("no handlers are registered")
	}
	// The worker must be registered before it claims its first job and until it
	// has completed its last one: others would reclaim its jobs.
	if err := q.heartbeat(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	defer q.deregister(ctx)
	if err := q.planSchedules(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	if err := q.upgrade(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	// Heartbeats go on while the jobs drain.
	heartbeats, stopHeartbeats := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHeartbeats()
	var wg sync.WaitGroup
	wg.Go(func() { q.maintain(heartbeats) })
	wg.Go(func() { q.runSchedules(ctx) })
	q.runLanes(ctx)
	stopHeartbeats()
	wg.Wait()
	return nil
}

// unlessDone is the error, unless the context's end explains it.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
