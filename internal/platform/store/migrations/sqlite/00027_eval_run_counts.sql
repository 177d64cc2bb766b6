-- +goose Up
-- A run's rate says little if many of its trials ended as error. The counts
-- stand beside eval_runs, whose last column is large: what comes after it is
-- slow to read.

-- Owner: internal/evals
CREATE TABLE eval_run_counts (
    run_id TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    tried  INTEGER NOT NULL, -- trials of both variants that were not skipped
    errors INTEGER NOT NULL -- of these
) STRICT;

INSERT INTO eval_run_counts (run_id, tried, errors)
SELECT run_id, COUNT(*) FILTER (WHERE verdict <> 'skipped'), COUNT(*) FILTER (WHERE verdict = 'error')
FROM eval_run_trials WHERE run_id IN (SELECT id FROM eval_runs WHERE finished_at IS NOT NULL)
GROUP BY run_id;
