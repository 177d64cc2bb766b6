-- +goose Up
-- Owner: internal/telemetry
CREATE TABLE telemetry_states (
    id         TEXT PRIMARY KEY, -- hash of organisation, user, kind and natural id
    org_id     TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    state      TEXT NOT NULL, -- JSON: what must be remembered to count each thing once
    updated_at BIGINT NOT NULL
);
