-- +goose Up
-- Oldest binary: 31

-- What a gate is about and what it asks: gates with equal ones pool their trials. Empty until the trials are planned,
-- and for gates from before.
-- Owner: internal/gates
ALTER TABLE gates ADD COLUMN pool TEXT NOT NULL DEFAULT '';
-- Digest of the files of the version.
-- Owner: internal/gates
ALTER TABLE gates ADD COLUMN content TEXT NOT NULL DEFAULT '';
-- JSON: ids of the earlier gates of the pool.
-- Owner: internal/gates
ALTER TABLE gates ADD COLUMN previous TEXT NOT NULL DEFAULT '[]';
CREATE INDEX gates_content ON gates (entry_id, content) WHERE content <> '';
-- Whether an earlier gate made the run.
-- Owner: internal/gates
ALTER TABLE gate_runs ADD COLUMN reused INTEGER NOT NULL DEFAULT 0;
