-- +goose Up
-- Oldest binary: 31

-- Owner: internal/deliver/sets
CREATE TABLE sets (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    description  TEXT NOT NULL,
    repositories TEXT NOT NULL, -- JSON: patterns such as acme/*
    required     INTEGER NOT NULL,
    created_by   TEXT NOT NULL REFERENCES users (id),
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (org_id, name)
) STRICT;

-- Owner: internal/deliver/sets
CREATE TABLE set_entries (
    set_id        TEXT NOT NULL REFERENCES sets (id) ON DELETE CASCADE,
    org_id        TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    entry_id      TEXT NOT NULL, -- no reference: the version before deletes entries and knows no sets
    position      INTEGER NOT NULL,
    version_range TEXT NOT NULL, -- empty: the current version
    PRIMARY KEY (set_id, entry_id)
) STRICT;
CREATE INDEX set_entries_entry ON set_entries (entry_id);

-- Owner: internal/deliver/sets
CREATE TABLE set_teams (
    set_id  TEXT NOT NULL REFERENCES sets (id) ON DELETE CASCADE,
    org_id  TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    PRIMARY KEY (set_id, team_id)
) STRICT;
CREATE INDEX set_teams_team ON set_teams (team_id);

-- Exactly one of user_id and team_id is set.
-- Owner: internal/deliver/sets
CREATE TABLE set_owners (
    set_id  TEXT NOT NULL REFERENCES sets (id) ON DELETE CASCADE,
    org_id  TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
    team_id TEXT REFERENCES teams (id) ON DELETE CASCADE,
    UNIQUE (set_id, user_id),
    UNIQUE (set_id, team_id)
) STRICT;
CREATE INDEX set_owners_user ON set_owners (user_id);
CREATE INDEX set_owners_team ON set_owners (team_id);

-- What is installed on a machine, as a digest: machines with the same skills have the same.
-- Owner: internal/deliver/installations
CREATE TABLE installation_machines (
    user_id   TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    device_id TEXT NOT NULL,
    org_id    TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    digest    TEXT NOT NULL, -- empty until a job has computed it
    PRIMARY KEY (user_id, device_id)
) STRICT;
CREATE INDEX installation_machines_digest ON installation_machines (org_id, digest);

-- Owner: internal/deliver/installations
CREATE TABLE installation_holdings (
    org_id   TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    digest   TEXT NOT NULL, -- SHA-256 of holdings
    holdings TEXT NOT NULL, -- a line for each entry and content
    PRIMARY KEY (org_id, digest)
) STRICT;

INSERT INTO installation_machines (user_id, device_id, org_id, digest)
    SELECT user_id, device_id, MIN(org_id), '' FROM registry_installations GROUP BY user_id, device_id;
