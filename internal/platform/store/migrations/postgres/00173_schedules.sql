-- +goose Up
-- Oldest binary: 31

-- Owner: internal/prove/schedules
CREATE TABLE eval_schedules (
    id               TEXT PRIMARY KEY,
    org_id           TEXT NOT NULL REFERENCES organisations (id),
    suite_id         TEXT NOT NULL, -- may be deleted
    subject          TEXT NOT NULL, -- JSON
    entry_id         TEXT, -- of subject
    skill            TEXT NOT NULL, -- its name, as of the last run
    agent            TEXT, -- JSON
    trials           BIGINT NOT NULL,
    baseline         TEXT NOT NULL,
    every            TEXT NOT NULL, -- '' with cron
    cron             TEXT NOT NULL, -- '' with every
    max_micros       BIGINT, -- that one run may cost
    max_month_micros BIGINT, -- that the runs of a calendar month may cost
    enabled          BOOLEAN NOT NULL,
    paused_reason    TEXT,
    next_at          BIGINT, -- NULL unless enabled
    last_run_id      TEXT,
    reference        TEXT, -- JSON; NULL until there are enough runs
    building         TEXT, -- JSON; the reference that follows
    created_by       TEXT NOT NULL REFERENCES users (id),
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL
);
CREATE INDEX eval_schedules_org ON eval_schedules (org_id, id);
CREATE INDEX eval_schedules_suite ON eval_schedules (suite_id, id);
CREATE INDEX eval_schedules_entry ON eval_schedules (entry_id, id) WHERE entry_id IS NOT NULL;
CREATE INDEX eval_schedules_due ON eval_schedules (next_at) WHERE next_at IS NOT NULL;

-- Owner: internal/prove/schedules
CREATE TABLE eval_schedule_runs (
    run_id      TEXT PRIMARY KEY, -- may be deleted with its suite
    schedule_id TEXT NOT NULL REFERENCES eval_schedules (id) ON DELETE CASCADE,
    due_at      BIGINT, -- NULL for a run that a person started
    status      TEXT NOT NULL, -- running until it is recorded, then as of eval_runs, or deleted
    max_micros  BIGINT,
    passed      BIGINT NOT NULL DEFAULT 0, -- trials with the skill
    decided     BIGINT NOT NULL DEFAULT 0,
    counts      BOOLEAN NOT NULL DEFAULT FALSE, -- it is evidence
    reference   DOUBLE PRECISION, -- score that it is compared with
    cost_micros BIGINT, -- NULL if a price is unknown
    conditions  TEXT NOT NULL DEFAULT '[]', -- JSON; what it was made with
    changed     TEXT NOT NULL DEFAULT '[]', -- JSON; since the run before
    started_at  BIGINT NOT NULL,
    ended_at    BIGINT
);
CREATE UNIQUE INDEX eval_schedule_runs_due ON eval_schedule_runs (schedule_id, due_at);
CREATE INDEX eval_schedule_runs_newest ON eval_schedule_runs (schedule_id, run_id);
