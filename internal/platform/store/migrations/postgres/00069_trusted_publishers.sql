-- +goose Up
-- Workflows of code hosts that may publish an entry without a stored secret. Binaries
-- of before would take a key for one entry for one of all entries: they refuse this
-- schema.

ALTER TABLE api_keys ADD COLUMN entry_id TEXT; -- the only registry entry that the key pushes versions of; null: it is no such key
CREATE INDEX api_keys_entry ON api_keys (expires_at) WHERE entry_id IS NOT NULL;

-- Owner: internal/publishers
CREATE TABLE trusted_publishers (
    id             TEXT PRIMARY KEY,
    org_id         TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    entry_id       TEXT NOT NULL REFERENCES registry_entries (id) ON DELETE CASCADE,
    provider       TEXT NOT NULL, -- github, gitlab or gitea
    issuer         TEXT NOT NULL, -- of ID tokens, e.g. https://token.actions.githubusercontent.com
    repository     TEXT NOT NULL, -- e.g. acme/skills
    repository_key TEXT NOT NULL, -- the same in lower case
    ref            TEXT NOT NULL, -- pattern of full refs, e.g. refs/heads/main; '' for every branch and tag
    workflow       TEXT NOT NULL, -- file, e.g. release.yml; '' for every one
    environment    TEXT NOT NULL, -- '' for every one, and none
    repository_id  TEXT NOT NULL, -- the code host's; '' until the first use
    owner_id       TEXT NOT NULL, -- the code host's; '' until the first use
    created_by     TEXT NOT NULL, -- the user
    created_at     BIGINT NOT NULL,
    last_used_at   BIGINT,
    UNIQUE (entry_id, issuer, repository_key, ref, workflow, environment)
);
CREATE INDEX trusted_publishers_org ON trusted_publishers (org_id, id);
CREATE INDEX trusted_publishers_match ON trusted_publishers (issuer, repository_key);
CREATE INDEX trusted_publishers_issuer ON trusted_publishers (issuer, provider);

-- ID tokens that were exchanged for a key: none is exchanged twice.
-- Owner: internal/publishers
CREATE TABLE trusted_exchanges (
    token        TEXT PRIMARY KEY, -- hash of its issuer and id
    org_id       TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    publisher_id TEXT NOT NULL, -- it may be gone
    key_id       TEXT NOT NULL,
    run          TEXT NOT NULL, -- JSON: the workflow run
    expires_at   BIGINT NOT NULL -- when token and key have expired
);
CREATE UNIQUE INDEX trusted_exchanges_key ON trusted_exchanges (key_id);
CREATE INDEX trusted_exchanges_publisher ON trusted_exchanges (publisher_id);
CREATE INDEX trusted_exchanges_age ON trusted_exchanges (expires_at);

-- The workflow run that published a version, as its code host vouched for it.
-- Owner: internal/publishers
CREATE TABLE version_publishers (
    version_id    TEXT PRIMARY KEY REFERENCES registry_versions (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, -- written after it
    org_id        TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    publisher_id  TEXT NOT NULL, -- it may be gone
    provider      TEXT NOT NULL,
    issuer        TEXT NOT NULL,
    repository    TEXT NOT NULL,
    repository_id TEXT NOT NULL,
    owner_id      TEXT NOT NULL,
    ref           TEXT NOT NULL, -- full ref, e.g. refs/tags/v1.2.3
    commit_sha    TEXT NOT NULL,
    workflow_ref  TEXT NOT NULL, -- e.g. acme/skills/.github/workflows/release.yml@refs/heads/main
    workflow_sha  TEXT NOT NULL,
    environment   TEXT NOT NULL,
    event         TEXT NOT NULL,
    run_id        TEXT NOT NULL,
    run_attempt   TEXT NOT NULL,
    run_url       TEXT NOT NULL,
    actor         TEXT NOT NULL,
    runner        TEXT NOT NULL, -- e.g. github-hosted
    created_at    BIGINT NOT NULL
);
