-- +goose Up
-- Service accounts, and keys that work from some networks only. Binaries of before
-- would accept such a key from everywhere, and let a service account sign in: they
-- refuse this schema.

ALTER TABLE users ADD COLUMN kind TEXT NOT NULL DEFAULT 'person'; -- person or service

ALTER TABLE api_keys ADD COLUMN allowed_ips TEXT; -- networks, space-separated, e.g. 10.0.0.0/8; null: from everywhere
ALTER TABLE api_keys ADD COLUMN refused_at INTEGER; -- when the audit log last said that it was used from elsewhere

-- What an organisation asks of new keys. No row: nothing.
-- Owner: internal/auth
CREATE TABLE key_policies (
    org_id              TEXT PRIMARY KEY REFERENCES organisations (id) ON DELETE CASCADE,
    max_days            INTEGER, -- of a key's life; null: keys need not expire
    require_allowed_ips INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL
) STRICT;
