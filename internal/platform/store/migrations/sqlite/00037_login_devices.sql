-- +goose Up
-- Oldest binary: 31

-- A login revokes the key of an earlier login of the same device only. Both are
-- null if the client did not identify its device: then it revokes none.
ALTER TABLE device_codes ADD COLUMN device_id TEXT;
ALTER TABLE api_keys ADD COLUMN device_id TEXT;
