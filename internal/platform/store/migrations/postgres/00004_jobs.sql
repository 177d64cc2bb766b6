-- +goose Up
-- A row for each job that waits under a unique key.
-- Owner: internal/jobs
CREATE TABLE job_keys (
    kind       TEXT NOT NULL,
    unique_key TEXT NOT NULL,
    PRIMARY KEY (kind, unique_key)
);

-- The processes that run jobs, and when each last said so.
-- Owner: internal/jobs
CREATE TABLE job_workers (
    id      TEXT PRIMARY KEY,
    seen_at BIGINT NOT NULL
);

-- When each periodic job is due next.
-- Owner: internal/jobs
CREATE TABLE job_schedules (
    kind    TEXT PRIMARY KEY,
    next_at BIGINT NOT NULL
);
