-- +goose Up
-- Oldest binary: 31

-- What the rollback of a firing came to: the version that was taken back and when, or
-- why none was (too_few_sessions, no_good_version or already_rolled_back) and how many
-- graded sessions are missing.
-- Owner: internal/alerts
ALTER TABLE alert_states ADD COLUMN rollback_version TEXT;
ALTER TABLE alert_states ADD COLUMN rollback_at BIGINT;
ALTER TABLE alert_states ADD COLUMN rollback_blocked_by TEXT;
ALTER TABLE alert_states ADD COLUMN rollback_needs BIGINT NOT NULL DEFAULT 0;
-- The evidence reached the limit, and is still above half of it.
ALTER TABLE alert_states ADD COLUMN evidence_reached BOOLEAN NOT NULL DEFAULT FALSE;

-- How often a grading was added, changed or removed, which tells alerts when the evidence
-- has to be gathered again.
-- Owner: internal/skills
ALTER TABLE skill_totals ADD COLUMN grading_changes BIGINT NOT NULL DEFAULT 0;

-- The pass rate itself takes back two in five harmless versions within four weeks.
UPDATE alert_rules SET sensitivity = 'sequential'
WHERE sensitivity = 'point' AND (action = 'rollback' OR type = 'worse_than_previous');
