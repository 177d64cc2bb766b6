-- +goose Up
-- Oldest binary: 31

-- Members can be removed and invited. The row of a removed member stays, for what
-- they made. Its email gives way to a text that is no address, so that whoever has
-- the address can be a member again, as somebody new. Binaries of before list removed
-- members, too; their keys are revoked all the same.
ALTER TABLE users ADD COLUMN removed_at INTEGER;
ALTER TABLE users ADD COLUMN former_email TEXT; -- of a removed member

-- The last use of a member's keys.
CREATE INDEX api_keys_user ON api_keys (user_id);

-- Owner: internal/auth
CREATE TABLE invitations (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id),
    role        TEXT NOT NULL,
    email       TEXT, -- lower case; null: whoever accepts says it
    hash        TEXT NOT NULL UNIQUE, -- SHA-256 of the token
    created_by  TEXT, -- the user; null: made on the server
    key_id      TEXT, -- with which it was made
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    accepted_at INTEGER,
    accepted_by TEXT, -- the user that it made
    revoked_at  INTEGER
) STRICT;
CREATE INDEX invitations_org ON invitations (org_id, id);
