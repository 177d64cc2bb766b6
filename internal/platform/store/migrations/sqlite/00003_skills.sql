-- +goose Up
-- Owner: internal/skills
CREATE TABLE skills (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (org_id, name)
) STRICT;
