-- +goose Up
-- Owner: internal/telemetry
CREATE TABLE telemetry_pushes (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id),
    user_id      TEXT NOT NULL REFERENCES users (id),
    push_id      TEXT NOT NULL, -- the client's name for it
    blob_key     TEXT, -- the raw body; null once erased
    accepted     INTEGER NOT NULL,
    rejected     INTEGER NOT NULL,
    received_at  INTEGER NOT NULL,
    UNIQUE (org_id, push_id)
) STRICT;
CREATE INDEX telemetry_pushes_user ON telemetry_pushes (user_id, received_at);
CREATE INDEX telemetry_pushes_raw ON telemetry_pushes (received_at) WHERE blob_key IS NOT NULL;

-- Owner: internal/telemetry
CREATE TABLE telemetry_records (
    id            TEXT PRIMARY KEY, -- hash of organisation, user, kind and natural id
    org_id        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    kind          TEXT NOT NULL,
    body          TEXT NOT NULL, -- JSON
    normalized_at INTEGER NOT NULL,
    received_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX telemetry_records_user ON telemetry_records (user_id, kind);
CREATE INDEX telemetry_records_received ON telemetry_records (received_at);

-- Owner: internal/telemetry
CREATE TABLE telemetry_prompts (
    hash          TEXT PRIMARY KEY, -- skills.PromptHash
    org_id        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    prompt_id     TEXT NOT NULL,
    kind          TEXT NOT NULL,
    prompt_text   TEXT NOT NULL, -- only its uploader may read it
    occurred_at   INTEGER NOT NULL,
    normalized_at INTEGER NOT NULL,
    received_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX telemetry_prompts_user ON telemetry_prompts (user_id, occurred_at);
CREATE INDEX telemetry_prompts_received ON telemetry_prompts (received_at);
