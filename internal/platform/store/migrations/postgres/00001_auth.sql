-- +goose Up
-- Owner: internal/auth
CREATE TABLE organisations (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    plan       TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- Owner: internal/auth
CREATE TABLE users (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    email      TEXT NOT NULL, -- lower case
    name       TEXT NOT NULL,
    role       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (org_id, email)
);

-- Owner: internal/auth
CREATE TABLE api_keys (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id),
    user_id      TEXT NOT NULL REFERENCES users (id),
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL, -- what people recognise the key by
    hash         TEXT NOT NULL UNIQUE, -- hex SHA-256; the key itself is kept nowhere
    permissions  TEXT, -- space-separated; null means all that the role gives
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT,
    expires_at   BIGINT,
    revoked_at   BIGINT
);
CREATE INDEX api_keys_org ON api_keys (org_id, id);

-- Owner: internal/auth
CREATE TABLE device_codes (
    hash       TEXT PRIMARY KEY, -- hex SHA-256 of the device code
    user_code  TEXT NOT NULL UNIQUE,
    client_id  TEXT NOT NULL,
    status     TEXT NOT NULL, -- pending, approved, denied, used
    org_id     TEXT REFERENCES organisations (id),
    user_id    TEXT REFERENCES users (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX device_codes_expiry ON device_codes (expires_at);

-- Owner: internal/auth
CREATE TABLE service_secrets (
    name       TEXT PRIMARY KEY,
    value      BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);
