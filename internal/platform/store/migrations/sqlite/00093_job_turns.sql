-- +goose Up
-- Oldest binary: 31

-- Jobs that are not runs take turns by organisation: internal/jobs/turns.go. On PostgreSQL
-- River keeps them, with the organisation in their metadata.
-- Owner: internal/jobs
ALTER TABLE jobs ADD COLUMN for_org TEXT NOT NULL DEFAULT '';
CREATE INDEX jobs_turns ON jobs (for_org, run_at, id) WHERE state = 'waiting' AND org_id IS NULL;
