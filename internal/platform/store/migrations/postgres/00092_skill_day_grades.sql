-- +goose NO TRANSACTION
-- +goose Up
-- Oldest binary: 31

-- Pages sum the days of all skills of an organisation. With what they sum in the index,
-- the days of a skill are read from a page or two of it, instead of from one page of the
-- table for each day. It is built while others write. One that was cut off is left
-- invalid, and begun again.
-- Owner: internal/skills
DROP INDEX IF EXISTS skill_days_grades;
CREATE INDEX CONCURRENTLY skill_days_grades ON skill_days (subject_id, day) INCLUDE (sessions, graded_sessions, pass_rate_sum);
