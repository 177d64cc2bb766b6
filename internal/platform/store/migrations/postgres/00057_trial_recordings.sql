-- +goose Up
-- What agents did in trials, by which a trial opens as a session. The bytes are blobs.
-- Trials without an agent have no row.

-- Owner: internal/runs
CREATE TABLE eval_trial_recordings (
    id       TEXT PRIMARY KEY, -- session_id of the trial
    run_id   TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    case_id  TEXT NOT NULL,
    variant  TEXT NOT NULL,
    n        BIGINT NOT NULL,
    blob_key TEXT NOT NULL UNIQUE,
    sha256   TEXT NOT NULL,
    bytes    BIGINT NOT NULL
);
CREATE INDEX eval_trial_recordings_run ON eval_trial_recordings (run_id);
