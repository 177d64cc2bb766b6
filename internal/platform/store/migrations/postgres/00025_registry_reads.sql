-- +goose Up
-- What the discovery indexes and the commonest reads need of a version, so that
-- neither reads manifests or archives.
ALTER TABLE registry_versions ADD COLUMN file_paths TEXT NOT NULL DEFAULT '[]'; -- JSON: the paths in file_manifest
ALTER TABLE registry_versions ADD COLUMN skill_md BYTEA; -- the file SKILL.md, if it is small; null before this migration

UPDATE registry_versions SET file_paths = COALESCE((
    SELECT json_agg(f.value ->> 'path' ORDER BY f.ordinality)::TEXT
    FROM json_array_elements(registry_versions.file_manifest::JSON) WITH ORDINALITY f), '[]');

-- One user counts once, however many devices and folders there are.
UPDATE registry_entries SET installation_count = (
    SELECT COUNT(DISTINCT i.user_id) FROM registry_installations i WHERE i.entry_id = registry_entries.id);

-- Owner: internal/registry
CREATE TABLE registry_names (
    name        TEXT COLLATE "C" PRIMARY KEY, -- of a public skill, at the host's own index
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE, -- whose skill has it
    released_at BIGINT -- when that skill was deleted; null while it is there
);
INSERT INTO registry_names (name, org_id)
SELECT ranked.name, ranked.org_id FROM (
    SELECT e.name, e.org_id, ROW_NUMBER() OVER (PARTITION BY e.name ORDER BY e.id) AS n
    FROM registry_entries e JOIN registry_versions v ON v.id = e.current_version_id
    WHERE e.visibility = 'public' AND e.entry_type = 'skill' AND v.canonical_hash IS NOT NULL) ranked
WHERE ranked.n = 1;
