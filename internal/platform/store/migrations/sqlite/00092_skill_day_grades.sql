-- +goose Up
-- Oldest binary: 31
-- PostgreSQL gets an index of skill_days here. SQLite keeps that table in the order of its key.
SELECT 1;
