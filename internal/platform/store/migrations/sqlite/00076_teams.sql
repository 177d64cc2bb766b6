-- +goose Up
-- Oldest binary: 31

-- Teams of people, and who owns which entry of the registry. Members who were removed
-- stay in the rows, and count nowhere.

-- Owner: internal/teams
CREATE TABLE teams (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    name        TEXT NOT NULL,
    slug        TEXT NOT NULL, -- of the name, e.g. data-platform; @org/slug in CODEOWNERS
    description TEXT NOT NULL,
    created_by  TEXT NOT NULL, -- the user
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    UNIQUE (org_id, slug)
) STRICT;

-- Owner: internal/teams
CREATE TABLE team_members (
    team_id  TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
    org_id   TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id  TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    added_at INTEGER NOT NULL,
    PRIMARY KEY (team_id, user_id)
) STRICT;
CREATE INDEX team_members_user ON team_members (user_id);
CREATE INDEX team_members_org ON team_members (org_id);

-- Owners that were set by hand. One of user_id and team_id is not null.
-- Owner: internal/teams
CREATE TABLE entry_owners (
    entry_id TEXT NOT NULL REFERENCES registry_entries (id) ON DELETE CASCADE,
    org_id   TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id  TEXT REFERENCES users (id) ON DELETE CASCADE,
    team_id  TEXT REFERENCES teams (id) ON DELETE CASCADE,
    set_at   INTEGER NOT NULL,
    UNIQUE (entry_id, user_id),
    UNIQUE (entry_id, team_id)
) STRICT;
CREATE INDEX entry_owners_org ON entry_owners (org_id);
CREATE INDEX entry_owners_user ON entry_owners (user_id);
CREATE INDEX entry_owners_team ON entry_owners (team_id);

-- What the CODEOWNERS file of a connected repository says about an entry. They count
-- while none are set by hand.
-- Owner: internal/teams
CREATE TABLE entry_codeowners (
    connection_id TEXT PRIMARY KEY REFERENCES repohost_connections (id) ON DELETE CASCADE,
    org_id        TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    entry_id      TEXT NOT NULL REFERENCES registry_entries (id) ON DELETE CASCADE,
    repository    TEXT NOT NULL, -- e.g. acme/skills
    commit_sha    TEXT NOT NULL, -- that the file was read at
    path          TEXT NOT NULL, -- of the file, e.g. .github/CODEOWNERS
    line          INTEGER NOT NULL, -- that applies; 0: none does
    pattern       TEXT NOT NULL, -- of the line; '': none applies
    owners        TEXT NOT NULL, -- JSON: as they are written, e.g. ["@acme/docs", "ada@example.org"]
    read_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX entry_codeowners_entry ON entry_codeowners (entry_id);
CREATE INDEX entry_codeowners_org ON entry_codeowners (org_id);
