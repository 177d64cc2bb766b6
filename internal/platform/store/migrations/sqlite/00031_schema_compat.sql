-- +goose Up
-- What every version of the schema demands of a binary: internal/store/compat.go.

-- Owner: internal/store
CREATE TABLE schema_compat (
    version INTEGER PRIMARY KEY, -- of the schema
    oldest  INTEGER NOT NULL     -- schema of the oldest binary that works with it
) STRICT;
