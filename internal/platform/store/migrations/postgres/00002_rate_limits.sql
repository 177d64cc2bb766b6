-- +goose Up
-- Owner: internal/httpapi
CREATE TABLE rate_windows (
    subject   TEXT NOT NULL, -- who, and on which route
    starts_at BIGINT NOT NULL,
    ends_at   BIGINT NOT NULL,
    requests  BIGINT NOT NULL,
    PRIMARY KEY (subject, starts_at)
);
CREATE INDEX rate_windows_end ON rate_windows (ends_at);
