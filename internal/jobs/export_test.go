package jobs

import (
	"context"
	"time"
)

// SetBack tells a queue on SQLite what it would notice by itself: no test can
// set a clock back.
func SetBack(ctx context.Context, q *Queue, by time.Duration) { q.engine.(*table).setBack(ctx, by) }
