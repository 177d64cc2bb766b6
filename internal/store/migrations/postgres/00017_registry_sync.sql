-- +goose Up
-- Owner: internal/registry
CREATE TABLE registry_sayings (
    user_id  TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    sum      TEXT NOT NULL, -- SHA-256 of what a client said about its installations
    heard_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, sum)
);
CREATE INDEX registry_sayings_heard_at ON registry_sayings (heard_at);
