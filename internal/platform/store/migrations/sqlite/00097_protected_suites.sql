-- +goose Up
-- Oldest binary: 31

-- Who changed a suite, and which cases. Rows stay when the suite is deleted.
-- Owner: internal/suites
CREATE TABLE eval_suite_edits (
    org_id    TEXT NOT NULL REFERENCES organisations (id),
    suite_id  TEXT NOT NULL,
    version   INTEGER NOT NULL, -- that the change made
    source_id TEXT, -- of the suite
    edited_by TEXT NOT NULL REFERENCES users (id),
    edited_at INTEGER NOT NULL,
    cases     TEXT NOT NULL, -- JSON: names of cases that were added, removed and changed
    PRIMARY KEY (suite_id, version)
) STRICT;
CREATE INDEX eval_suite_edits_source ON eval_suite_edits (org_id, source_id);
INSERT INTO eval_suite_edits (org_id, suite_id, version, source_id, edited_by, edited_at, cases)
SELECT org_id, id, version, source_id, created_by, updated_at, '{}' FROM eval_suites;

-- The skills that sources are and were measured as. Rows stay when the source is deleted.
-- Owner: internal/sources
CREATE TABLE source_links (
    org_id    TEXT NOT NULL REFERENCES organisations (id),
    skill_id  TEXT NOT NULL,
    source_id TEXT NOT NULL,
    PRIMARY KEY (org_id, skill_id, source_id)
) STRICT;
INSERT INTO source_links (org_id, skill_id, source_id)
SELECT org_id, skill_id, id FROM cloud_sources WHERE skill_id IS NOT NULL AND source_type NOT IN ('pull', 'candidate');

-- What a version goes on waiting for since its policy was lowered.
-- Owner: internal/gates
CREATE TABLE gate_requirements (
    version_id    TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL REFERENCES organisations (id),
    entry_id      TEXT NOT NULL,
    approvals     INTEGER NOT NULL,
    self_approval INTEGER NOT NULL,
    host_reviews  INTEGER NOT NULL
) STRICT;
CREATE INDEX gate_requirements_entry ON gate_requirements (entry_id);

-- A version that does not become current when it is published.
-- Owner: internal/registry
ALTER TABLE registry_versions ADD COLUMN apart INTEGER NOT NULL DEFAULT 0;
