-- +goose Up
-- The skills that a version requires: metadata.requires of its SKILL.md. Versions
-- that were there before get theirs by a job: see registry_requirement_backfill.
-- Owner: internal/registry
CREATE TABLE registry_requirements (
    version_id    TEXT NOT NULL REFERENCES registry_versions (id) ON DELETE CASCADE,
    position      INTEGER NOT NULL,
    entry_id      TEXT NOT NULL, -- of the version
    org_id        TEXT NOT NULL, -- of the entry
    required_org  TEXT NOT NULL, -- name of the organisation; '': that of the entry
    required_name TEXT NOT NULL,
    version_range TEXT NOT NULL, -- e.g. >= 1.2; '': any
    PRIMARY KEY (version_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX registry_requirements_required ON registry_requirements (required_name, required_org, org_id);

-- Owner: internal/registry
CREATE TABLE registry_requirement_backfill (
    after_id TEXT NOT NULL -- the last version that is done; no row: all are
) STRICT;
INSERT INTO registry_requirement_backfill (after_id) SELECT '' WHERE EXISTS (SELECT 1 FROM registry_versions);
