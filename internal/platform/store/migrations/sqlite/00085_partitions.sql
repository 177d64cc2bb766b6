-- +goose Up
-- Oldest binary: 31

-- The version of the schema that each process knows; 0 for those that do not say.
-- Owner: internal/jobs
ALTER TABLE job_workers ADD COLUMN schema_version INTEGER NOT NULL DEFAULT 0;
