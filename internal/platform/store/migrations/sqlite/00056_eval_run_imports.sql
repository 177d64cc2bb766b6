-- +goose Up
-- Runs that another tool made elsewhere, and what it says about them. The digest
-- of its file keeps a suite from having the same run twice.

-- Owner: internal/runs
CREATE TABLE eval_run_imports (
    run_id   TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    suite_id TEXT NOT NULL REFERENCES eval_suites (id) ON DELETE CASCADE,
    digest   TEXT NOT NULL,
    origin   TEXT NOT NULL, -- JSON: tool, version, model, its own totals
    UNIQUE (suite_id, digest)
) STRICT;
