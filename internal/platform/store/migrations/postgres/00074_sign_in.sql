-- +goose Up
-- Oldest binary: 31

-- People sign in to the dashboard with identity providers.

-- The address of a member who accepted an open invitation is what they said, so no
-- identity provider signs in as them because of it.
ALTER TABLE users ADD COLUMN address_claimed BOOLEAN NOT NULL DEFAULT false;
UPDATE users SET address_claimed = true WHERE id IN (SELECT accepted_by FROM invitations WHERE email IS NULL AND accepted_by IS NOT NULL);

ALTER TABLE sessions ADD COLUMN identity_id TEXT; -- null: signed in to with a key

-- Who a member is at an identity provider. The address there may change, and be that of
-- somebody else later: it identifies nobody.
-- Owner: internal/auth
CREATE TABLE identities (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    issuer       TEXT NOT NULL,
    subject      TEXT NOT NULL,
    provider     TEXT NOT NULL, -- its name in the settings at the last sign-in
    email        TEXT NOT NULL, -- at the last sign-in
    key_id       TEXT NOT NULL, -- that the sessions hang on
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    UNIQUE (org_id, issuer, subject),
    UNIQUE (user_id, issuer) -- another identity of the same provider is another person
);

-- Sign-ins whose answer was used: none is used twice.
-- Owner: internal/auth
CREATE TABLE used_sign_ins (
    state      TEXT PRIMARY KEY, -- its SHA-256
    org_id     TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);
CREATE INDEX used_sign_ins_age ON used_sign_ins (expires_at);
