-- +goose Up
-- Rollbacks can be undone: the marks of both versions are as they were.
ALTER TABLE registry_rollbacks ADD COLUMN unmarked INTEGER NOT NULL DEFAULT 0; -- to_version was marked as rolled back, and no longer is
ALTER TABLE registry_rollbacks ADD COLUMN undone_at INTEGER;
ALTER TABLE registry_rollbacks ADD COLUMN undone_by TEXT;

-- Some clients never go down to a lower version: rollbacks by alerts roll forward for them.
ALTER TABLE registry_installations ADD COLUMN client TEXT NOT NULL DEFAULT ''; -- that installed it, e.g. clawhub; '' if not known

-- When the steps of an incident were done, and how it ended.
ALTER TABLE incidents ADD COLUMN marked_at INTEGER; -- the commit was
ALTER TABLE incidents ADD COLUMN issue_opened_at INTEGER;
ALTER TABLE incidents ADD COLUMN issue_closed_at INTEGER;
ALTER TABLE incidents ADD COLUMN outcome TEXT NOT NULL DEFAULT ''; -- resolved or undone; '' while it is open

-- The closing of an issue is tried again, so a closed incident may have work left.
DROP INDEX incidents_open;
CREATE INDEX incidents_unfinished ON incidents (id) WHERE closed_at IS NULL OR issue_status = 'done';
