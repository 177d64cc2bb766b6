-- +goose Up
-- Oldest binary: 31

-- The trace that a job continues: internal/trace.Parent. '' for none. River keeps that of its
-- jobs in their metadata.
-- Owner: internal/jobs
ALTER TABLE jobs ADD COLUMN trace TEXT NOT NULL DEFAULT '';
