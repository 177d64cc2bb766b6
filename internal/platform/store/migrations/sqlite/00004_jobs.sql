-- +goose Up
-- The queue itself. PostgreSQL has River's tables in its place.
-- Owner: internal/jobs
CREATE TABLE jobs (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: a late worker must not end another's job
    kind         TEXT NOT NULL,
    args         TEXT NOT NULL, -- JSON
    unique_key   TEXT,
    state        TEXT NOT NULL, -- waiting, running, discarded
    attempt      INTEGER NOT NULL, -- how often it was started
    max_attempts INTEGER NOT NULL,
    run_at       INTEGER NOT NULL,
    owner        TEXT, -- the worker that runs it
    last_error   TEXT,
    created_at   INTEGER NOT NULL,
    discarded_at INTEGER
) STRICT;
CREATE INDEX jobs_state ON jobs (state, run_at, id);
CREATE INDEX jobs_key ON jobs (kind, unique_key) WHERE unique_key IS NOT NULL;

-- A row for each job that waits under a unique key.
-- Owner: internal/jobs
CREATE TABLE job_keys (
    kind       TEXT NOT NULL,
    unique_key TEXT NOT NULL,
    PRIMARY KEY (kind, unique_key)
) STRICT;

-- The processes that run jobs, and when each last said so.
-- Owner: internal/jobs
CREATE TABLE job_workers (
    id      TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL
) STRICT;

-- When each periodic job is due next.
-- Owner: internal/jobs
CREATE TABLE job_schedules (
    kind    TEXT PRIMARY KEY,
    next_at INTEGER NOT NULL
) STRICT;
