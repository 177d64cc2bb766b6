-- +goose Up
-- Owner: internal/registry
CREATE TABLE registry_sayings (
    user_id  TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    sum      TEXT NOT NULL, -- SHA-256 of what a client said about its installations
    heard_at INTEGER NOT NULL,
    PRIMARY KEY (user_id, sum)
) STRICT;
CREATE INDEX registry_sayings_heard_at ON registry_sayings (heard_at);

-- Owner: internal/registry
CREATE TABLE registry_changes (
    org_id  TEXT PRIMARY KEY REFERENCES organisations (id) ON DELETE CASCADE,
    changes INTEGER NOT NULL -- grows with every change of what a sync tells of the organisation's entries
) STRICT;
