-- +goose Up
-- What the models that took part in a run cost. It is beside eval_runs like
-- eval_run_counts. Runs from before have no row.

-- Owner: internal/runs
CREATE TABLE eval_run_costs (
    run_id TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    cost   TEXT NOT NULL -- JSON: micros, unpriced_requests, requests, tokens
);
