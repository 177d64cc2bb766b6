-- +goose Up
-- A list reads a page of each alternative, e.g. activated and not, and merges them, so
-- that these share one index: indexes are most of what a session costs.
DROP INDEX agent_sessions_started; -- of every outcome
DROP INDEX agent_sessions_graded;
DROP INDEX agent_session_skills_started;
DROP INDEX agent_session_skills_activated;
DROP INDEX agent_session_skills_graded;
CREATE INDEX agent_session_skills_activated ON agent_session_skills (skill_id, activated, started_at, session_id);
