package jobs

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// What River (v0.50) does not do, and is done here instead. Each has the test
// that fails with River's own:
//
//   - Unique keys (unique.go). River's UniqueOpts require that a running job
//     counts, so what changes after it started would be lost: jobstest Unique.
//     River's key is also part of the job, so a failed one and its successor
//     would collide: jobstest UniqueSuperseded.
//   - Schedules (schedule.go). River's periodic jobs live in the leader's memory
//     and start anew with every leader, so a daily job would never run where
//     processes restart every day: jobstest EveryMissed.
//   - Reclaiming (reclaimRiver). River rescues a job by its age, which must be
//     above the longest timeout, an hour; a killed process's jobs are to
//     continue after its lease, seconds: jobstest Crash, CrashOfMany.
//   - Fair claims (turns.go, runs.go): jobstest Turns, Share, RunsInTurn.
//   - Another clock than the machine's (dbClock, dueByDatabaseClock): TestRiverClock,
//     TestEnqueueByDatabaseClock, and TestTortureClock in e2e/cluster.
//   - Counting jobs and saving them (riverAndOwnJobs), and restoring them with
//     the attempts they have used (restoreRiver): jobstest Counts, TestSaved.
//
// No statement on River's tables is elsewhere.

// riverAndOwnJobs is a relation of River's jobs and ours in the columns of the
// table jobs. Types must be equal on both sides, or PostgreSQL would compute
// all columns of all rows first.
const riverAndOwnJobs = `(
	SELECT id, kind, args, unique_key, state, attempt, max_attempts, run_at, owner, last_error, created_at,
		discarded_at, org_id, for_org
	FROM jobs
	UNION ALL
	SELECT id, kind, args::TEXT, metadata->>'whetstone_key',
		CASE state WHEN 'running' THEN 'running' WHEN 'discarded' THEN 'discarded' ELSE 'waiting' END,
		attempt::BIGINT, max_attempts::BIGINT, (EXTRACT(EPOCH FROM scheduled_at) * 1000000)::BIGINT,
		attempted_by[cardinality(attempted_by)], errors[cardinality(errors)]->>'error',
		(EXTRACT(EPOCH FROM created_at) * 1000000)::BIGINT, (EXTRACT(EPOCH FROM finalized_at) * 1000000)::BIGINT,
		NULL::TEXT, ` + riverOrg + `
	FROM river_job
	WHERE state IN ('available', 'pending', 'retryable', 'scheduled', 'running', 'discarded')) AS jobs`

// reclaimRiver is table.reclaim for River's jobs.
func reclaimRiver(ctx context.Context, tx *store.Tx) ([]reclaimed, error) {
	rows, err := tx.Query(ctx, `
		UPDATE river_job SET
			state = CASE WHEN attempt < max_attempts THEN 'available' ELSE 'discarded' END::river_job_state,
			finalized_at = CASE WHEN attempt < max_attempts THEN NULL ELSE now() END,
			scheduled_at = now(),
			errors = array_append(errors,
				jsonb_build_object('at', now(), 'attempt', attempt, 'error', $1::TEXT, 'trace', ''))
		WHERE state = 'running' AND attempted_by[cardinality(attempted_by)] NOT IN (SELECT id FROM job_workers)
		RETURNING kind, state = 'discarded'`, deadWorker)
	return store.All(rows, err, scanReclaimed)
}

// restoreRiver is table.restore for River's jobs.
func restoreRiver(ctx context.Context, tx *store.Tx, s Saved) error {
	meta, err := json.Marshal(metadata{Key: s.Key, Org: s.ForOrg})
	if err != nil {
		return err
	}
	state := rivertype.JobStateAvailable
	if s.RunAt.After(time.Now()) {
		state = rivertype.JobStateScheduled
	}
	if s.DiscardedAt != nil {
		state = rivertype.JobStateDiscarded
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO river_job
			(kind, args, metadata, state, attempt, max_attempts, scheduled_at, created_at, finalized_at, errors)
		VALUES ($1, $2::TEXT::JSONB, $3::TEXT::JSONB, $4::TEXT::river_job_state, $5::BIGINT, $6::BIGINT,
			to_timestamp($7::BIGINT / 1000000.0), to_timestamp($8::BIGINT / 1000000.0),
			to_timestamp($9::BIGINT / 1000000.0),
			CASE WHEN $10::TEXT <> '' THEN ARRAY[
				jsonb_build_object('at', now(), 'attempt', $5::BIGINT, 'error', $10::TEXT, 'trace', '')] END)`,
		s.Kind, string(s.Args), string(meta), string(state), s.Attempt, s.MaxAttempts,
		store.Micros(s.RunAt), store.Micros(s.CreatedAt), store.NullMicros(s.DiscardedAt), s.LastError)
	return err
}

// dueByDatabaseClock makes a job due when it is inserted. River takes the
// machine's time for that, and claims jobs by the database's; its SQL puts
// the database's time in the place of a zero one.
func dueByDatabaseClock(_ context.Context, params *rivertype.JobInsertParams) error {
	params.CreatedAt, params.ScheduledAt = new(time.Time), new(time.Time)
	return nil
}

// A dbClock is the database's clock, as of the last heartbeat. River claims
// jobs by the database's clock, but schedules snoozed and failed ones by the
// machine's: if that is wrong by an hour, they wait for an hour. River has one
// way to give it another clock, which is meant for tests.
type dbClock struct{ last atomic.Pointer[clockReading] }

type clockReading struct {
	shown time.Time // by the database's clock
	at    time.Time // by this machine's: only its monotonic time is used
}

func (c *dbClock) set(now time.Time) { c.last.Store(&clockReading{shown: now, at: time.Now()}) }

// Now implements rivertype.TimeGenerator. Before the first heartbeat it is the
// machine's time.
func (c *dbClock) Now() time.Time {
	r := c.last.Load()
	if r == nil {
		return time.Now()
	}
	return r.shown.Add(time.Since(r.at))
}

// NowOrNil implements rivertype.TimeGenerator. For nil, River's SQL takes the
// database's time.
func (*dbClock) NowOrNil() *time.Time { return nil }
