-- +goose Up
-- Tokens that open an organisation's catalogs, and nothing else.

-- Owner: internal/catalog
CREATE TABLE catalog_tokens (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id),
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL, -- what is shown of the token
    hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the token
    created_by   TEXT NOT NULL, -- the user
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT,
    expires_at   BIGINT,
    replaced_at  BIGINT -- when it was rotated; it works until it expires
);
CREATE INDEX catalog_tokens_org ON catalog_tokens (org_id, id);
