package jobs

import (
	"sync/atomic"
	"time"
)

// A pgClock is PostgreSQL's clock as this process knows it. Jobs are claimed
// by that one. River would plan and wake jobs by a process's own, and if that
// is wrong they would wait for as long as it is.
type pgClock struct{ last atomic.Pointer[reading] }

// A reading is what PostgreSQL's clock showed.
type reading struct {
	shown time.Time
	at    time.Time // by a clock that nobody sets: time.Since takes the monotonic one
}

// staleReading is when a process that runs no jobs, and so is not told the
// time, looks at the clock again.
const staleReading = 10 * time.Second

// Now is PostgreSQL's time, or a moment before. Before the first tick it is
// this machine's.
func (c *pgClock) Now() time.Time {
	r := c.last.Load()
	if r == nil {
		return time.Now()
	}
	return r.shown.Add(time.Since(r.at))
}

// NowOrNil is nil, for which River's SQL takes PostgreSQL's time.
func (*pgClock) NowOrNil() *time.Time { return nil }

// tick tells the clock what PostgreSQL's shows.
func (c *pgClock) tick(now time.Time) { c.last.Store(&reading{shown: now, at: time.Now()}) }

func (r *riverQueue) clock() time.Time { return r.time.Now() }

func (r *riverQueue) tick(now time.Time) { r.time.tick(now) }

// An insertClock is a pgClock for jobs that are inserted, whose time River's
// SQL does not take from PostgreSQL by itself.
type insertClock struct{ *pgClock }

// NowOrNil is when a job that is inserted now is due.
func (c insertClock) NowOrNil() *time.Time {
	now := c.Now()
	return &now
}
