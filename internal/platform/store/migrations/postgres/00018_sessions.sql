-- +goose Up
-- Owner: internal/auth
CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    user_id    TEXT NOT NULL REFERENCES users (id),
    key_id     TEXT NOT NULL REFERENCES api_keys (id), -- what it was signed in with; it may do no more
    hash       TEXT NOT NULL UNIQUE, -- hex SHA-256 of the cookie's value
    browser    TEXT NOT NULL, -- as it calls itself
    address    TEXT NOT NULL, -- where it signed in from
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL, -- to within minutes
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id, id);
CREATE INDEX sessions_expiry ON sessions (expires_at);
