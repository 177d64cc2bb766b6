-- +goose Up
-- Codex logs an invocation by a person before the prompt of its turn, perhaps in
-- another body.
ALTER TABLE cost_marks ADD COLUMN opens_turn BOOLEAN NOT NULL DEFAULT FALSE; -- the prompt of the turn follows
