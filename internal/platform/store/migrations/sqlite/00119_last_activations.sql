-- +goose Up
-- Oldest binary: 31

-- Finds the last activation of a skill in a session, and with it the version that the
-- session's grade and costs count for.
-- Owner: internal/skills
CREATE INDEX skill_observations_activated ON skill_observations (skill_id, session_hash, occurred_at, version_id) WHERE triggered;
