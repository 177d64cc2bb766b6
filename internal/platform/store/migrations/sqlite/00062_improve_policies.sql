-- +goose Up
-- Improve runs that start by themselves, for skills whose organisation asks for it.

-- Owner: internal/improve
CREATE TABLE improve_policies (
    org_id      TEXT NOT NULL REFERENCES organisations (id),
    skill_id    TEXT NOT NULL,
    mode        TEXT NOT NULL, -- off, propose, publish
    monthly_usd REAL NOT NULL,
    updated_by  TEXT NOT NULL REFERENCES users (id),
    updated_at  INTEGER NOT NULL,
    night       TEXT NOT NULL, -- the last one that looked at the skill, e.g. 2026-01-02
    note        TEXT NOT NULL, -- what it did, or why it did nothing
    run_id      TEXT, -- an improve run of a night whose end has not been looked at
    PRIMARY KEY (org_id, skill_id)
) STRICT;

-- Owner: internal/improve
CREATE TABLE improve_policy_runs (
    run_id       TEXT PRIMARY KEY, -- an improve run that started by itself
    org_id       TEXT NOT NULL REFERENCES organisations (id),
    skill_id     TEXT NOT NULL,
    max_cost_usd REAL NOT NULL,
    started_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX improve_policy_runs_skill ON improve_policy_runs (org_id, skill_id, started_at);
