-- +goose Up
-- Oldest binary: 31

-- A relay's key may name the contributors of the signals it passes on.
ALTER TABLE api_keys ADD COLUMN relay BOOLEAN NOT NULL DEFAULT FALSE;
