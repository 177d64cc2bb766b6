-- +goose Up
-- Oldest binary: 31

-- Grows when something must no longer be handed out, at once: what is cached from before is
-- dropped. It begins at a number of the organisation, so that sums over organisations differ.
-- Owner: internal/registry
ALTER TABLE registry_changes ADD COLUMN removals BIGINT NOT NULL DEFAULT 0;

-- Why a version was withdrawn; null while it is not.
-- Owner: internal/registry
ALTER TABLE registry_versions ADD COLUMN withdrawn_reason TEXT;
UPDATE registry_versions SET withdrawn_reason = (
    SELECT CAST(a.detail AS JSONB) ->> 'reason' FROM audit_entries a
    WHERE a.action = 'registry.version.withdraw' AND a.target_id = registry_versions.entry_id AND CAST(a.detail AS JSONB) ->> 'version' = registry_versions.version
    ORDER BY a.at DESC, a.id DESC LIMIT 1)
WHERE state = 'withdrawn';

-- ClawHub names a skill and its publisher.
CREATE INDEX registry_entries_unlisted ON registry_entries (name) WHERE visibility = 'unlisted';
