-- +goose Up
-- Oldest binary: 31

-- A run of trigger queries may be asked on all skills that an agent lists, with the
-- descriptions that are left in its budget. Such a run says how well the catalogue works,
-- and counts for nothing else.
-- Owner: internal/runs
CREATE TABLE eval_run_catalogs (
    run_id         TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    org_id         TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    catalog        TEXT NOT NULL, -- full, claude-code or codex
    context_window INTEGER NOT NULL, -- tokens; 0 with full
    pair           TEXT NOT NULL, -- equal for runs that differ in the listing only
    choice         TEXT NOT NULL, -- JSON of the columns above, and the number of skills
    skills         TEXT NOT NULL -- JSON: names and descriptions as they are listed
) STRICT;
CREATE INDEX eval_run_catalogs_org ON eval_run_catalogs (org_id, pair);

-- Why an export failed; safe to show.
-- Owner: internal/privacy
ALTER TABLE organisation_exports ADD COLUMN error TEXT;
