-- +goose Up
-- Owner: internal/httpapi
CREATE TABLE rate_windows (
    subject   TEXT NOT NULL, -- who, and on which route
    starts_at INTEGER NOT NULL,
    ends_at   INTEGER NOT NULL,
    requests  INTEGER NOT NULL,
    PRIMARY KEY (subject, starts_at)
) STRICT;
CREATE INDEX rate_windows_end ON rate_windows (ends_at);
