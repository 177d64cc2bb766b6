-- +goose Up
-- Owner: internal/proposals
CREATE TABLE proposals (
    id                  TEXT PRIMARY KEY,
    org_id              TEXT NOT NULL REFERENCES organisations (id),
    skill_id            TEXT NOT NULL REFERENCES skills (id),
    skill_name          TEXT NOT NULL,
    finding             TEXT NOT NULL, -- what it answers; once for each skill
    proposal_type       TEXT NOT NULL,
    current_value       TEXT,
    proposed_value      TEXT,
    reason              TEXT NOT NULL,
    confidence          REAL,
    pass_rate_before    REAL,
    projected_pass_rate REAL,
    evidence            TEXT NOT NULL, -- JSON
    status              TEXT NOT NULL, -- pending, approved, rejected or applied
    proposed_by         TEXT NOT NULL,
    reviewed_by         TEXT,
    reviewed_at         INTEGER,
    applied_at          INTEGER,
    created_at          INTEGER NOT NULL,
    UNIQUE (org_id, skill_name, finding)
) STRICT;
CREATE INDEX proposals_org ON proposals (org_id, id);
