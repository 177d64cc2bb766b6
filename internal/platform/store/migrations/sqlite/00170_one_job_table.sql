-- +goose Up
-- Oldest binary: 31

-- For PostgreSQL, where the version before kept some jobs elsewhere; SQLite has one table of jobs already.
SELECT 1;
