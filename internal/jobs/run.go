package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Run runs jobs until the context ends. Then it claims no more, gives those
// that run the time of Options.Drain, ends their context, waits for them and
// returns nil. It is called at most once.
func (q *Queue) Run(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "run jobs")
	if len(q.handlers) == 0 {
		return errors.New("nothing is registered to be run")
	}
	// The others must know this worker before it claims its first job, and
	// until it has ended its last.
	if err := q.beat(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	defer q.leave(ctx)
	if err := q.planSchedules(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	if err := q.adopt(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	alive, die := context.WithCancel(context.WithoutCancel(ctx))
	defer die()
	var wg sync.WaitGroup
	wg.Go(func() { q.keepUp(alive) })
	wg.Go(func() { q.keepSchedules(ctx) })
	err = unlessDone(ctx, q.engine.run(ctx))
	stop()
	die()
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

// beat says that this worker lives, and learns the database's time.
func (q *Queue) beat(ctx context.Context) error {
	now, err := store.Returning(ctx, q.db, "Worker", store.Value[int64], `
		INSERT INTO job_workers (id, seen_at) VALUES ($1, `+q.engine.now()+`)
		ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
		RETURNING seen_at`, q.worker)
	if err == nil {
		q.engine.tick(time.UnixMicro(now))
	}
	return err
}

// leave says that this worker runs nothing any more. If that fails its lease
// runs out instead.
func (q *Queue) leave(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	if _, err := q.db.Exec(ctx, `DELETE FROM job_workers WHERE id = $1`, q.worker); err != nil {
		q.log.WarnContext(ctx, "worker could not sign off", "err", err)
	}
}

// tidyEvery is how often leftovers are removed.
const tidyEvery = time.Hour

// keepUp says that this worker lives, takes the jobs of those that died, and
// tidies up.
func (q *Queue) keepUp(ctx context.Context) {
	if err := q.buryNeighbours(ctx); err != nil && ctx.Err() == nil {
		q.log.WarnContext(ctx, "dead workers of this machine wait for their lease's end", "err", err)
	}
	var tidied time.Time
	pulse := pulse{lease: q.options.Lease}
	ticker := time.NewTicker(q.options.Lease / 3)
	defer ticker.Stop()
	for {
		err := q.beat(ctx)
		if err == nil && pulse.felt(time.Now()) {
			err = q.rescue(ctx)
		}
		if _, shared := q.db.Pool(); err == nil && shared {
			err = q.adopt(ctx) // processes of an older version may run beside this one
		}
		if err == nil && time.Since(tidied) > tidyEvery {
			tidied = time.Now()
			err = q.db.InTx(ctx, func(tx *store.Tx) error { return q.engine.tidy(ctx, tx) })
		}
		if err != nil && ctx.Err() == nil {
			q.log.WarnContext(ctx, "upkeep of the job queue failed", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// A pulse is when this worker could last say that it lives.
type pulse struct {
	lease    time.Duration
	last     time.Time
	patience time.Time // until then the others' silence means nothing
}

// felt notes a beat, and reports whether the silence of others is a sign of
// their death. To one who was silent itself it is not: the database was away
// for all, or the machine slept, and they must have the time to come back.
func (p *pulse) felt(now time.Time) bool {
	if !p.last.IsZero() && now.Sub(p.last) > p.lease/2 {
		p.patience = now.Add(p.lease)
	}
	p.last = now
	return !now.Before(p.patience)
}

// rescued is a job taken from a dead worker.
type rescued struct {
	kind      string
	discarded bool // it had no attempt left
}

func scanRescued(row store.Row) (r rescued, err error) {
	err = row.Scan(&r.kind, &r.discarded)
	return r, err
}

// deadWorker is the error that a rescued job gets.
const deadWorker = "the process that ran it ended"

func (q *Queue) rescue(ctx context.Context) error {
	var all []rescued
	err := q.db.InTx(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM job_workers WHERE seen_at < `+q.engine.now()+` - $1`, q.options.Lease.Microseconds())
		if err != nil {
			return err
		}
		all, err = q.engine.rescue(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range all {
		q.metrics.runs.WithLabelValues(r.kind, "rescued").Inc()
		q.log.WarnContext(ctx, "job taken from a dead process", "kind", r.kind, "discarded", r.discarded)
	}
	return nil
}

// A worker's name says which process it is: machine, process id, a word of
// that process (ids come again, in a container at every start) and a word of
// its own.
func workerName() string {
	host, _ := os.Hostname() // without a name the lease decides
	host = strings.ReplaceAll(host[:min(len(host), 48)], "/", "-")
	return fmt.Sprintf("%s/%d/%s/%s", host, os.Getpid(), processWord, rand.Text()[:8])
}

var processWord = rand.Text()[:8]

// buryNeighbours strikes out the workers whose process is known to be dead, so
// that a restart need not wait for their lease to run out. Only SQLite lives
// on one machine; elsewhere the same name may be another machine's.
func (q *Queue) buryNeighbours(ctx context.Context) error {
	if _, shared := q.db.Pool(); shared {
		return nil
	}
	rows, err := q.db.Query(ctx, `SELECT id FROM job_workers`)
	names, err := store.All(rows, err, store.Value[string])
	for _, name := range names {
		if err == nil && isDead(name, q.worker) {
			_, err = q.db.Exec(ctx, `DELETE FROM job_workers WHERE id = $1`, name)
		}
	}
	return err
}

// isDead reports whether a worker on this machine has certainly ended.
func isDead(name, own string) bool {
	var pid int
	its, mine := strings.Split(name, "/"), strings.Split(own, "/")
	if len(its) != len(mine) || its[0] != mine[0] || its[0] == "" {
		return false
	}
	if its[1] == mine[1] {
		return its[2] != mine[2]
	}
	if _, err := fmt.Sscan(its[1], &pid); err != nil {
		return false
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	defer func() { _ = process.Release() }()
	return errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}
