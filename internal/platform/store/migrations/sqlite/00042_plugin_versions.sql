-- +goose Up
-- The version of a plugin that a session loaded is the version of its skills,
-- also if it is reported after them.
ALTER TABLE skill_observations ADD COLUMN plugin TEXT; -- of a skill named plugin:skill
CREATE INDEX skill_observations_plugin ON skill_observations (session_hash) WHERE plugin IS NOT NULL;
