-- +goose Up
-- Oldest binary: 31

-- People and groups that identity providers push with SCIM 2.0.

-- Owner: internal/auth
CREATE TABLE scim_tokens (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL, -- what lists show of it
    hash         TEXT NOT NULL UNIQUE, -- SHA-256 of the token
    created_by   TEXT NOT NULL, -- the user
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT,
    expires_at   BIGINT
);
CREATE INDEX scim_tokens_org ON scim_tokens (org_id, id);

-- A person as the provider describes them. They are active if their user is a member.
-- Owner: internal/auth
CREATE TABLE scim_users (
    id            TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    user_id       TEXT UNIQUE REFERENCES users (id) ON DELETE CASCADE, -- null: never active so far
    user_name     TEXT NOT NULL,
    user_name_key TEXT NOT NULL, -- the same in lower case
    external_id   TEXT, -- the provider's id
    email         TEXT NOT NULL, -- lower case
    profile       TEXT NOT NULL, -- JSON: names and addresses
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    UNIQUE (org_id, user_name_key),
    UNIQUE (org_id, external_id)
);
CREATE INDEX scim_users_org ON scim_users (org_id, id);
CREATE INDEX scim_users_email ON scim_users (org_id, email);

-- Owner: internal/auth
CREATE TABLE scim_groups (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    name_key     TEXT NOT NULL, -- the same in lower case
    external_id  TEXT, -- the provider's id
    role         TEXT, -- that an owner lets it give; null: none
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    UNIQUE (org_id, name_key),
    UNIQUE (org_id, external_id)
);
CREATE INDEX scim_groups_org ON scim_groups (org_id, id);

-- Owner: internal/auth
CREATE TABLE scim_group_members (
    org_id    TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    group_id  TEXT NOT NULL REFERENCES scim_groups (id) ON DELETE CASCADE,
    member_id TEXT NOT NULL REFERENCES scim_users (id) ON DELETE CASCADE,
    PRIMARY KEY (group_id, member_id)
);
CREATE INDEX scim_group_members_member ON scim_group_members (member_id);
