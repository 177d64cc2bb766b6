-- +goose Up
-- Codex logs an invocation by a person before the prompt of its turn, perhaps in
-- another body.
ALTER TABLE cost_marks ADD COLUMN opens_turn INTEGER NOT NULL DEFAULT 0; -- the prompt of the turn follows
