-- +goose Up
-- Clients of other registries name the files that they have by hashes of their
-- own. Versions that were there before get theirs by a job: see
-- registry_tree_backfill.
-- Owner: internal/registry
CREATE TABLE registry_tree_hashes (
    kind       TEXT NOT NULL, -- whose hash, e.g. clawhub
    hash       TEXT NOT NULL, -- hex
    entry_id   TEXT NOT NULL,
    version_id TEXT NOT NULL REFERENCES registry_versions (id) ON DELETE CASCADE,
    PRIMARY KEY (kind, hash, entry_id, version_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX registry_tree_hashes_version ON registry_tree_hashes (version_id);

-- Owner: internal/registry
CREATE TABLE registry_tree_backfill (
    after_id TEXT NOT NULL -- the last version that is done; no row: all are
) STRICT;
INSERT INTO registry_tree_backfill (after_id) SELECT '' WHERE EXISTS (SELECT 1 FROM registry_versions);

-- Files on their way to a version: the clawhub CLI sends them one by one.
-- Owner: internal/catalog
CREATE TABLE clawhub_uploads (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id    TEXT NOT NULL,
    sha256     TEXT NOT NULL,
    size       INTEGER NOT NULL,
    received   INTEGER NOT NULL, -- boolean: its bytes are stored
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX clawhub_uploads_org ON clawhub_uploads (org_id, created_at);
CREATE INDEX clawhub_uploads_age ON clawhub_uploads (created_at);
