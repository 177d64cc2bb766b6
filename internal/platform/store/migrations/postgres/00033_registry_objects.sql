-- +goose Up
-- Every version has objects of its own in the bucket, whose keys it names, so nothing counts references. Versions
-- that are there keep the objects that they share, whose keys are the SHA-256 of the content: the daily sweep
-- deletes those that no version names.
ALTER TABLE registry_versions ADD COLUMN archive_key TEXT NOT NULL DEFAULT ''; -- of the archive with content_hash
ALTER TABLE registry_versions ADD COLUMN canonical_key TEXT; -- of the archive with canonical_hash
UPDATE registry_versions SET
    archive_key = 'sha256/' || substr(content_hash, 1, 2) || '/' || content_hash,
    canonical_key = 'sha256/' || substr(canonical_hash, 1, 2) || '/' || canonical_hash;
CREATE INDEX registry_versions_archive_key ON registry_versions (archive_key);
CREATE INDEX registry_versions_canonical_key ON registry_versions (canonical_key);

DROP TABLE registry_blobs;
DROP TABLE registry_removals;
DELETE FROM job_schedules WHERE kind = 'registry.recount-blobs';

-- Quotas count the archive of every version: equal ones are stored as often.
UPDATE stored_bytes SET bytes = COALESCE((
    SELECT SUM(v.size) FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id
    WHERE e.org_id = stored_bytes.org_id), 0)
WHERE kind = 'registry';
