-- +goose Up
-- Oldest binary: 31

-- The trace that a job continues: internal/trace.Parent. '' for none.
-- Owner: internal/jobs
ALTER TABLE jobs ADD COLUMN trace TEXT NOT NULL DEFAULT '';
