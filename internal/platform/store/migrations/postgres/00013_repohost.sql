-- +goose Up
-- Owner: internal/repohost
CREATE TABLE repohost_settings (
    org_id          TEXT PRIMARY KEY REFERENCES organisations (id),
    write_back_mode TEXT NOT NULL,
    updated_at      BIGINT NOT NULL
);

-- Owner: internal/repohost
CREATE TABLE repohost_installations (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL REFERENCES organisations (id),
    installation_id BIGINT NOT NULL UNIQUE, -- the code host's
    account_login   TEXT NOT NULL,
    account_type    TEXT NOT NULL,
    suspended       BOOLEAN NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
CREATE INDEX repohost_installations_org ON repohost_installations (org_id, id);

-- Owner: internal/repohost
CREATE TABLE repohost_connections (
    id                 TEXT PRIMARY KEY,
    org_id             TEXT NOT NULL REFERENCES organisations (id),
    entry_id           TEXT NOT NULL, -- of a registry entry, which may be gone
    entry_name         TEXT NOT NULL,
    installation_id    BIGINT NOT NULL,
    repo_id            BIGINT NOT NULL, -- the code host's: it stays when the name changes
    repo_full_name     TEXT NOT NULL,
    repo_key           TEXT NOT NULL, -- the same in lower case
    default_branch     TEXT NOT NULL,
    skill_path         TEXT NOT NULL,
    auto_publish       BOOLEAN NOT NULL,
    write_back_enabled BOOLEAN NOT NULL,
    tag_pattern        TEXT NOT NULL,
    created_by         TEXT NOT NULL REFERENCES users (id),
    created_at         BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL,
    configured_at      BIGINT NOT NULL, -- when what is published last changed its rules
    held_until         BIGINT NOT NULL, -- until when one worker publishes for it
    UNIQUE (repo_key, skill_path, entry_id)
);
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
    installation_id BIGINT NOT NULL, -- 0: none
    repo_full_name  TEXT NOT NULL, -- '': none
    repo_key        TEXT NOT NULL,
    body            BYTEA NOT NULL,
    status          TEXT NOT NULL,
    attempts        BIGINT NOT NULL,
    detail          TEXT NOT NULL,
    received_at     BIGINT NOT NULL,
    finished_at     BIGINT,
    UNIQUE (provider, delivery_id)
);
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
    tries             BIGINT NOT NULL,
    version           TEXT,
    message           TEXT NOT NULL,
    findings          TEXT NOT NULL, -- JSON
    queued_at         BIGINT NOT NULL,
    attempted_at      BIGINT NOT NULL,
    published_at      BIGINT,
    write_back_status TEXT NOT NULL,
    write_back_detail TEXT NOT NULL,
    write_back_tries  BIGINT NOT NULL,
    status_sent       BOOLEAN NOT NULL,
    check_run_id      TEXT,
    annotations_sent  BIGINT NOT NULL,
    UNIQUE (connection_id, ref_kind, ref_name, commit_sha)
);
CREATE INDEX repohost_attempts_last ON repohost_attempts (connection_id, attempted_at, id);
CREATE INDEX repohost_attempts_queued ON repohost_attempts (connection_id, queued_at, id) WHERE status = 'queued';
CREATE INDEX repohost_attempts_delivery ON repohost_attempts (delivery_id);
