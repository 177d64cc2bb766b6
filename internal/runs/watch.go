package runs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/judge"
)

// ErrOver means that a run ended while a worker was busy with it: it was
// cancelled or deleted, or another process finished it.
var ErrOver = errors.New("the run is over")

// pollEvery is how often a worker looks whether its run was cancelled.
const pollEvery = 500 * time.Millisecond

// WhileRunning calls work with a context that is cancelled within a second
// after the run has ended, and returns ErrOver then. The function running
// reports whether the run is still running; it may also store the progress. Its
// errors are ignored: the work is too expensive to be lost to one failed query.
func WhileRunning(
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
				stop(ErrOver)
			}
		}
	})
	err := work(ctx, stop)
	over := errors.Is(context.Cause(ctx), ErrOver)
	stop(nil)
	watching.Wait()
	if over {
		return ErrOver
	}
	return err
}

// InternalError is shown for a run that failed for a reason which is not the
// user's to know. The log has it.
const InternalError = "internal: the run could not go on; the log of the service says why"

// PermanentError returns the message of a run that failed with an error which
// a retry would meet again, and false if a retry may help.
func PermanentError(err error) (message string, ok bool) {
	if judge.MustStop(err) {
		return err.Error(), true
	}
	switch f, isFault := errors.AsType[*fault.Error](err); {
	case isFault && f.Kind == fault.NotFound:
		return "subject_gone: " + f.Message, true
	case isFault && f.Kind == fault.Malformed:
		return "subject_unusable: " + f.Message, true
	}
	return "", false
}
