-- +goose Up
-- Covering indexes: a bundle has up to 8 MiB, and SQLite walks through all pages of
-- it to read the columns behind it.
DROP INDEX community_bundles_creator;
DROP INDEX community_bundles_skill;
CREATE INDEX community_bundles_creator ON community_bundles (creator_id, id, skill_name, contributor_hash, submitted_at);
CREATE INDEX community_bundles_skill ON community_bundles (creator_id, skill_name, id, contributor_hash, submitted_at,
    created_at, total_sessions, graded_sessions, average_pass_rate);
