-- +goose Up
-- Rows are only ever added, and removed by age: an entry outlives what it tells of.
-- Owner: internal/audit
CREATE TABLE audit_entries (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL,
    at          BIGINT NOT NULL,
    actor       TEXT NOT NULL, -- user, key, system or command
    actor_name  TEXT NOT NULL, -- the person's address at that time; '': nobody's
    user_id     TEXT,
    key_id      TEXT,
    action      TEXT NOT NULL, -- capability.noun.verb
    target_kind TEXT NOT NULL,
    target_id   TEXT NOT NULL,
    target_name TEXT NOT NULL,
    detail      TEXT NOT NULL, -- a small JSON object without secrets
    via         TEXT NOT NULL, -- api, web, cli or job
    request_id  TEXT
);
CREATE INDEX audit_entries_newest ON audit_entries (org_id, at, id);
CREATE INDEX audit_entries_age ON audit_entries (at);
