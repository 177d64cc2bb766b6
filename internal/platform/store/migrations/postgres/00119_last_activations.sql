-- +goose NO TRANSACTION
-- +goose Up
-- Oldest binary: 31

-- Finds the last activation of a skill in a session, and with it the version that the
-- session's grade and costs count for. It is built while others write. One that was cut
-- off is left invalid, and begun again.
-- Owner: internal/skills
DROP INDEX IF EXISTS skill_observations_activated;
CREATE INDEX CONCURRENTLY skill_observations_activated ON skill_observations (skill_id, session_hash, occurred_at, version_id) WHERE triggered;
