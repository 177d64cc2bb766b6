package jobs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// riverTable is the table of River, as far as versions before used it, with the
// settings of its own that matter.
const riverTable = `
	CREATE TYPE river_job_state AS ENUM
		('available', 'cancelled', 'completed', 'discarded', 'pending', 'retryable', 'running', 'scheduled');
	CREATE TABLE river_job (
		id           BIGSERIAL PRIMARY KEY,
		state        river_job_state NOT NULL DEFAULT 'available',
		attempt      SMALLINT NOT NULL DEFAULT 0,
		max_attempts SMALLINT NOT NULL,
		attempted_at TIMESTAMPTZ,
		created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
		finalized_at TIMESTAMPTZ,
		scheduled_at TIMESTAMPTZ NOT NULL DEFAULT now(),
		priority     SMALLINT NOT NULL DEFAULT 1,
		args         JSONB NOT NULL DEFAULT '{}',
		attempted_by TEXT[],
		errors       JSONB[],
		kind         TEXT NOT NULL,
		metadata     JSONB NOT NULL DEFAULT '{}',
		queue        TEXT NOT NULL DEFAULT 'default',
		tags         VARCHAR(255)[] NOT NULL DEFAULT '{}',
		CONSTRAINT finalized_or_finalized_at_null CHECK
			((finalized_at IS NULL) = (state NOT IN ('cancelled', 'completed', 'discarded')))
	)`

// riverJobs are jobs of a version before, in each state: what waits, what ended, what a
// dead process ran, with and without attempts left, and what a living one runs.
const riverJobs = `
	INSERT INTO river_job (kind, args, metadata, state, attempt, max_attempts, attempted_by, errors, finalized_at, scheduled_at)
	VALUES
		('test.saved', '{"name": "due"}', '{"whetstone_key": "k", "whetstone_org": "acme"}', 'available', 0, 10, NULL, NULL, NULL, now()),
		('test.saved', '{"name": "retried"}', '{}', 'retryable', 1, 10, '{dead}', ARRAY['{"error": "boom"}'::JSONB], NULL, now() - interval '1 s'),
		('test.saved', '{"name": "later"}', '{}', 'scheduled', 0, 10, NULL, NULL, NULL, now() + interval '1 h'),
		('test.saved', '{"name": "given up"}', '{}', 'discarded', 10, 10, '{dead}', ARRAY['{"error": "boom"}'::JSONB], now(), now()),
		('test.saved', '{"name": "done"}', '{}', 'completed', 1, 10, '{dead}', NULL, now(), now()),
		('test.saved', '{"name": "of the dead"}', '{}', 'running', 1, 10, '{dead}', NULL, NULL, now()),
		('test.saved', '{"name": "last of the dead"}', '{}', 'running', 10, 10, '{dead}', NULL, NULL, now()),
		('test.saved', '{"name": "of the living"}', '{}', 'running', 1, 10, '{dead, living}', NULL, NULL, now()),
		('test.newer', '{"name": "unknown"}', '{"whetstone_key": "n", "whetstone_org": "acme"}', 'available', 2, 10, NULL, NULL, NULL, now()),
		('test.saved-run', '{"name": "run"}', '{}', 'available', 0, 10, NULL, NULL, NULL, now())`

// TestUpgrade has a queue take over the jobs that a version before left with River, beside
// a process of that version, and give back what waits when it is that one's turn again.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	s := newSavedQueue(t, "postgres")
	for _, statement := range []string{
		riverTable, riverJobs, `INSERT INTO job_keys (kind, unique_key) VALUES ('test.saved', 'k')`,
		`INSERT INTO job_workers (id, seen_at, schema_version) VALUES ('living', (EXTRACT(EPOCH FROM now() + interval '1 h') * 1000000)::BIGINT, 169)`,
	} {
		if _, err := s.db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	s.wantRuns(t, "due", "retried", "of the dead", "run")
	rows, err := s.db.Query(t.Context(), `SELECT (metadata->>'whetstone_key') || ' ' || (metadata->>'whetstone_org') FROM river_job WHERE kind = 'test.newer'`)
	if got, err := store.One(rows, err, "Job", store.Value[string]); err != nil || got != "n acme" {
		t.Errorf("a job was given back as %q: %v", got, err)
	}
	if got := s.save(t); len(got) != 2 || got[0].LastError != "boom" || got[1].Attempt != 10 || got[1].DiscardedAt == nil {
		t.Errorf("the queue has %+v, want those that were given up", got)
	}
	s.wantRiver(t, "done completed 1", "later scheduled 0", "of the living running 1",
		"unknown available 2")
}

// wantRiver compares River's jobs.
func (s *savedQueue) wantRiver(t *testing.T, want ...string) {
	t.Helper()
	rows, err := s.db.Query(t.Context(), `SELECT (args->>'name') || ' ' || state || ' ' || attempt FROM river_job ORDER BY 1`)
	got, err := store.All(rows, err, store.Value[string])
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("River's jobs (-want +got):\n%s%v", diff, err)
	}
}
