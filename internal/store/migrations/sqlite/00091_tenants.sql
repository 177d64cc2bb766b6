-- +goose Up
-- Oldest binary: 31
-- PostgreSQL also gets an index of skill_days here. SQLite keeps that table in the order of
-- its key.

-- When time alone may change a verdict, so that no sweep evaluates all organisations.
-- 0 is at once, also for rules of a binary that does not know the column.
-- Owner: internal/alerts
ALTER TABLE alert_rules ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX alert_rules_due ON alert_rules (due_at, org_id) WHERE enabled;
