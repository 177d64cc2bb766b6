package jobs

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

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
	if q.river == nil {
		if err := q.table.assignOrgs(ctx); err != nil {
			return unlessDone(ctx, err)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Heartbeats go on while the jobs drain.
	heartbeats, stopHeartbeats := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHeartbeats()
	var wg sync.WaitGroup
	wg.Go(func() { q.maintain(heartbeats) })
	wg.Go(func() { q.runSchedules(ctx) })
	g, claims := errgroup.WithContext(ctx)
	g.Go(func() error { return q.table.run(claims) })
	if q.river != nil {
		g.Go(func() error { return q.river.run(claims) })
	}
	err = unlessDone(ctx, g.Wait())
	stop()
	stopHeartbeats()
	wg.Wait()
	return err
}

// unlessDone is the error, unless the context's end explains it.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}
