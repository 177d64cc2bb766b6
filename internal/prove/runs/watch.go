package runs

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errOver means that a run ended while a worker was busy with it: it was
// cancelled or deleted, or another process finished it.
var errOver = errors.New("the run is over")

// pollEvery is how often a worker checks whether its run was cancelled.
const pollEvery = 500 * time.Millisecond

// while calls work with a context that is cancelled within a second after the run has
// ended, and returns errOver then. The function running reports whether the run is
// still running; it may also store the progress. Its errors are ignored: the work is
// too expensive to be lost to one failed query.
func while(
	ctx context.Context,
	running func(context.Context) (bool, error),
	work func(context.Context, context.CancelCauseFunc) error,
) error {
	ctx, stop := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if ok, err := running(ctx); err == nil && !ok {
				stop(errOver)
			}
		}
	})
	err := work(ctx, stop)
	over := errors.Is(context.Cause(ctx), errOver)
	stop(nil)
	watching.Wait()
	if over {
		return errOver
	}
	return err
}
