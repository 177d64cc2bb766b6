-- +goose Up
-- Owner: internal/registry
CREATE TABLE registry_entries (
    id                 TEXT PRIMARY KEY,
    org_id             TEXT NOT NULL REFERENCES organisations (id),
    name               TEXT NOT NULL,
    entry_type         TEXT NOT NULL,
    description        TEXT NOT NULL,
    visibility         TEXT NOT NULL,
    source_repo        TEXT,
    skill_id           TEXT REFERENCES skills (id),
    current_version_id TEXT NOT NULL,
    current_version    TEXT NOT NULL, -- of that version, so that a sync reads entries only
    current_hash       TEXT NOT NULL,
    installation_count INTEGER NOT NULL,
    created_by         TEXT NOT NULL REFERENCES users (id),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    UNIQUE (org_id, name)
) STRICT;
CREATE INDEX registry_entries_public ON registry_entries (name, id) WHERE visibility = 'public';

-- Owner: internal/registry
CREATE TABLE registry_versions (
    id             TEXT PRIMARY KEY,
    entry_id       TEXT NOT NULL REFERENCES registry_entries (id),
    version        TEXT NOT NULL,
    content_hash   TEXT NOT NULL, -- of the archive as it was sent
    canonical_hash TEXT, -- of the same files as installers want them; null without a SKILL.md
    tree_digest    TEXT NOT NULL, -- of the files, however they are packed
    size           INTEGER NOT NULL,
    description    TEXT NOT NULL,
    file_manifest  TEXT NOT NULL, -- JSON
    change_summary TEXT,
    source         TEXT NOT NULL,
    source_ref     TEXT,
    source_repo    TEXT,
    rolled_back    INTEGER NOT NULL,
    pushed_by      TEXT NOT NULL REFERENCES users (id),
    pushed_at      INTEGER NOT NULL,
    UNIQUE (entry_id, version)
) STRICT;
CREATE INDEX registry_versions_pushed ON registry_versions (entry_id, pushed_at, id);
CREATE INDEX registry_versions_content ON registry_versions (content_hash);
CREATE INDEX registry_versions_canonical ON registry_versions (canonical_hash);

-- Owner: internal/registry
CREATE TABLE registry_rollbacks (
    id             TEXT PRIMARY KEY,
    entry_id       TEXT NOT NULL REFERENCES registry_entries (id),
    from_version   TEXT NOT NULL,
    to_version     TEXT NOT NULL,
    reason         TEXT,
    rolled_back_by TEXT NOT NULL REFERENCES users (id),
    rolled_back_at INTEGER NOT NULL
) STRICT;
CREATE INDEX registry_rollbacks_entry ON registry_rollbacks (entry_id, id);

-- Owner: internal/registry
CREATE TABLE registry_installations (
    id           TEXT PRIMARY KEY,
    entry_id     TEXT NOT NULL REFERENCES registry_entries (id),
    org_id       TEXT NOT NULL REFERENCES organisations (id), -- the user's, not the entry's
    user_id      TEXT NOT NULL REFERENCES users (id),
    device_id    TEXT NOT NULL,
    install_path TEXT NOT NULL,
    content_hash TEXT NOT NULL, -- what the client said it has; empty when it did not
    installed_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    UNIQUE (entry_id, user_id, device_id, install_path)
) STRICT;
CREATE INDEX registry_installations_user ON registry_installations (user_id, entry_id);

-- Owner: internal/registry
CREATE TABLE registry_blobs (
    hash       TEXT PRIMARY KEY,
    refs       INTEGER NOT NULL, -- versions that need it, and pushes on the way
    deleting   INTEGER NOT NULL, -- being removed: nobody may take it now
    touched_at INTEGER NOT NULL
) STRICT;
CREATE INDEX registry_blobs_unused ON registry_blobs (hash) WHERE refs = 0;

-- Owner: internal/registry
CREATE TABLE registry_currents (
    id         TEXT PRIMARY KEY,
    entry_id   TEXT NOT NULL REFERENCES registry_entries (id),
    version_id TEXT NOT NULL,
    since      INTEGER NOT NULL -- from when on the version was the current one
) STRICT;
CREATE INDEX registry_currents_since ON registry_currents (entry_id, since, id);
CREATE INDEX registry_entries_skill ON registry_entries (skill_id);
