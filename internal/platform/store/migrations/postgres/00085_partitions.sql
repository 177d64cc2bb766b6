-- +goose Up
-- Oldest binary: 31

-- The version of the schema that each process knows; 0 for those that do not say. Tables
-- are partitioned when all that run are of this version or newer: see
-- internal/store/partitions.go, which also does it, since old data needs more than one
-- transaction.
-- Owner: internal/jobs
ALTER TABLE job_workers ADD COLUMN schema_version BIGINT NOT NULL DEFAULT 0;
