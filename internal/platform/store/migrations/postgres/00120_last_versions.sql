-- +goose Up
-- Oldest binary: 31

-- Sessions that activated two versions of a skill on one day counted for the one with the
-- higher id, and not for the last. A job moves their grades and costs.
INSERT INTO skill_backfill (step, after_id) SELECT 'last_gradings', '' WHERE EXISTS (SELECT 1 FROM skill_gradings);
INSERT INTO skill_backfill (step, after_id) SELECT 'last_versions', '' WHERE EXISTS (SELECT 1 FROM skill_observations);
