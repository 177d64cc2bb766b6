-- +goose Up
-- Which key made or approved another one, so that a stolen key can be revoked with
-- all that came of it.

ALTER TABLE api_keys ADD COLUMN created_by_key TEXT; -- id of the key that made or approved it; null: made on the server
ALTER TABLE api_keys ADD COLUMN login BOOLEAN NOT NULL DEFAULT FALSE; -- a device login: it ends with created_by_key

ALTER TABLE device_codes ADD COLUMN key_id TEXT REFERENCES api_keys (id); -- that approved it; null: approved on the server

-- Nobody knows which key approved these.
UPDATE device_codes SET status = 'denied' WHERE status = 'approved';
