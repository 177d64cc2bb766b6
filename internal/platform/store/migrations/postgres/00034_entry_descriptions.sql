-- +goose Up
-- Oldest binary: 33
-- An entry's description is that of its current version. Every version has the words that its entry shows while it
-- is current: what its sender said, or else what its SKILL.md says. NULL: a binary of before has written the version.
ALTER TABLE registry_versions ADD COLUMN entry_description TEXT;

-- Until now the description was that of an entry's first version. A later one without words of its own keeps them.
UPDATE registry_versions SET entry_description = COALESCE(
    CASE WHEN id = (
        SELECT f.id FROM registry_versions f WHERE f.entry_id = registry_versions.entry_id ORDER BY f.pushed_at, f.id LIMIT 1
    ) THEN NULL ELSE NULLIF(description, '') END,
    (SELECT e.description FROM registry_entries e WHERE e.id = registry_versions.entry_id));
UPDATE registry_entries SET description = COALESCE(
    (SELECT v.entry_description FROM registry_versions v WHERE v.id = registry_entries.current_version_id), description);
