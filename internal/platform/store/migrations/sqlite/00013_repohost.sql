-- +goose Up
-- Owner: internal/repohost
CREATE TABLE repohost_settings (
    org_id          TEXT PRIMARY KEY REFERENCES organisations (id),
    write_back_mode TEXT NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;

-- Owner: internal/repohost
CREATE TABLE repohost_installations (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL REFERENCES organisations (id),
    installation_id INTEGER NOT NULL UNIQUE, -- the code host's
    account_login   TEXT NOT NULL,
    account_type    TEXT NOT NULL,
    suspended       INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX repohost_installations_org ON repohost_installations (org_id, id);

-- Owner: internal/repohost
CREATE TABLE repohost_connections (
    id                 TEXT PRIMARY KEY,
    org_id             TEXT NOT NULL REFERENCES organisations (id),
    entry_id           TEXT NOT NULL, -- of a registry entry, which may be gone
    entry_name         TEXT NOT NULL,
    installation_id    INTEGER NOT NULL,
    repo_id            INTEGER NOT NULL, -- the code host's: it stays when the name changes
    repo_full_name     TEXT NOT NULL,
    repo_key           TEXT NOT NULL, -- the same in lower case
    default_branch     TEXT NOT NULL,
    skill_path         TEXT NOT NULL,
    auto_publish       INTEGER NOT NULL,
    write_back_enabled INTEGER NOT NULL,
    tag_pattern        TEXT NOT NULL,
    created_by         TEXT NOT NULL REFERENCES users (id),
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    configured_at      INTEGER NOT NULL, -- when what is published last changed its rules
    held_until         INTEGER NOT NULL, -- until when one worker publishes for it
    UNIQUE (repo_key, skill_path, entry_id)
) STRICT;
CREATE INDEX repohost_connections_org ON repohost_connections (org_id, id);
CREATE INDEX repohost_connections_repo ON repohost_connections (repo_id);

-- Owner: internal/repohost
CREATE TABLE repohost_deliveries (
    id              TEXT PRIMARY KEY,
    provider        TEXT NOT NULL,
    delivery_id     TEXT NOT NULL, -- the code host's
    event           TEXT NOT NULL,
    action          TEXT NOT NULL,
    content_type    TEXT NOT NULL,
    installation_id INTEGER NOT NULL, -- 0: none
    repo_full_name  TEXT NOT NULL, -- '': none
    repo_key        TEXT NOT NULL,
    body            BLOB NOT NULL,
    status          TEXT NOT NULL,
    attempts        INTEGER NOT NULL,
    detail          TEXT NOT NULL,
    received_at     INTEGER NOT NULL,
    finished_at     INTEGER,
    UNIQUE (provider, delivery_id)
) STRICT;
CREATE INDEX repohost_deliveries_repo ON repohost_deliveries (repo_key, id);
CREATE INDEX repohost_deliveries_received ON repohost_deliveries (received_at);

-- Owner: internal/repohost
CREATE TABLE repohost_attempts (
    id                TEXT PRIMARY KEY,
    org_id            TEXT NOT NULL REFERENCES organisations (id),
    connection_id     TEXT NOT NULL,
    ref_kind          TEXT NOT NULL, -- branch or tag
    ref_name          TEXT NOT NULL,
    commit_sha        TEXT NOT NULL,
    cause             TEXT NOT NULL, -- push, tag, sync or reconcile
    delivery_id       TEXT, -- of repohost_deliveries
    status            TEXT NOT NULL,
    tries             INTEGER NOT NULL,
    version           TEXT,
    message           TEXT NOT NULL,
    findings          TEXT NOT NULL, -- JSON
    queued_at         INTEGER NOT NULL,
    attempted_at      INTEGER NOT NULL,
    published_at      INTEGER,
    write_back_status TEXT NOT NULL,
    write_back_detail TEXT NOT NULL,
    write_back_tries  INTEGER NOT NULL,
    status_sent       INTEGER NOT NULL,
    check_run_id      TEXT,
    annotations_sent  INTEGER NOT NULL,
    UNIQUE (connection_id, ref_kind, ref_name, commit_sha)
) STRICT;
CREATE INDEX repohost_attempts_last ON repohost_attempts (connection_id, attempted_at, id);
CREATE INDEX repohost_attempts_queued ON repohost_attempts (connection_id, queued_at, id) WHERE status = 'queued';
CREATE INDEX repohost_attempts_delivery ON repohost_attempts (delivery_id);
