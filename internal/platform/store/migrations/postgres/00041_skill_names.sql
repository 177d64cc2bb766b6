-- +goose Up
-- A skill is listed once a real use of its name was reported. A person can hide
-- it, or merge it into another one, which then has all that is reported of it.
ALTER TABLE skills ADD COLUMN confirmed BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE skills ADD COLUMN hidden BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE skills ADD COLUMN merged_into TEXT; -- the id of another skill
CREATE INDEX skills_merged ON skills (merged_into) WHERE merged_into IS NOT NULL;

-- The skill that the report named, if that is merged into skill_id.
ALTER TABLE skill_observations ADD COLUMN origin_id TEXT;
CREATE INDEX skill_observations_origin ON skill_observations (origin_id) WHERE origin_id IS NOT NULL;
ALTER TABLE skill_gradings ADD COLUMN origin_id TEXT;
CREATE INDEX skill_gradings_origin ON skill_gradings (origin_id) WHERE origin_id IS NOT NULL;
