-- +goose Up
-- What every version of the schema demands of a binary: internal/store/compat.go.

-- Owner: internal/store
CREATE TABLE schema_compat (
    version BIGINT PRIMARY KEY, -- of the schema
    oldest  BIGINT NOT NULL     -- schema of the oldest binary that works with it
);
