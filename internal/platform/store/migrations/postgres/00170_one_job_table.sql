-- +goose Up
-- Oldest binary: 31

-- All jobs are in this table now, and none in River's: internal/platform/jobs/upgrade.go. Claims go by
-- this index: internal/platform/jobs/turns.go.
-- Owner: internal/platform/jobs
CREATE INDEX jobs_turns ON jobs (for_org, run_at, id) WHERE state = 'waiting' AND org_id IS NULL;
