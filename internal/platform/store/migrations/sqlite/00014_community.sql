-- +goose Up
-- Owner: internal/community
CREATE TABLE community_bundles (
    id                  TEXT PRIMARY KEY,
    org_id              TEXT NOT NULL REFERENCES organisations (id), -- who sent it
    creator_id          TEXT NOT NULL, -- whom it is for; perhaps no user yet
    skill_name          TEXT NOT NULL,
    digest              TEXT NOT NULL, -- of creator, skill and bundle: the same again is no other
    contributor_hash    TEXT NOT NULL,
    schema_version      TEXT NOT NULL,
    tool_version        TEXT,
    agent_type          TEXT NOT NULL,
    sanitization_level  TEXT NOT NULL,
    positive_queries    INTEGER NOT NULL,
    eval_entries        INTEGER NOT NULL,
    total_sessions      INTEGER NOT NULL,
    graded_sessions     INTEGER NOT NULL,
    average_pass_rate   REAL,
    deployed_proposals  INTEGER NOT NULL,
    bundle              TEXT NOT NULL,
    created_at          INTEGER NOT NULL, -- as the bundle has it
    submitted_at        INTEGER NOT NULL,
    UNIQUE (org_id, digest)
) STRICT;
CREATE INDEX community_bundles_creator ON community_bundles (creator_id, id);
CREATE INDEX community_bundles_skill ON community_bundles (creator_id, skill_name, contributor_hash);
