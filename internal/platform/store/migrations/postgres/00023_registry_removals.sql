-- +goose Up
-- A push stores its bytes before it says in registry_blobs that it needs them.
-- What was removed meanwhile stands here, until every such push is over.

-- Owner: internal/registry
CREATE TABLE registry_removals (
    hash       TEXT PRIMARY KEY,
    removed_at BIGINT NOT NULL
);
