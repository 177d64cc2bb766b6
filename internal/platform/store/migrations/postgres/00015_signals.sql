-- +goose Up
-- Owner: internal/signals
CREATE TABLE signals (
    org_id      TEXT NOT NULL REFERENCES organisations (id),
    source_key  TEXT NOT NULL, -- the sender's, or made by us for a session
    skill_name  TEXT NOT NULL,
    signal_type TEXT NOT NULL,
    contributor TEXT NOT NULL, -- keyed hash of a cohort or user
    confidence  BIGINT, -- billionths
    day         BIGINT NOT NULL, -- days since the epoch, UTC
    session     TEXT, -- JSON; null for a signal of a batch
    PRIMARY KEY (org_id, source_key)
);

-- A cell counts the signals of one place in a fixed hierarchy: internal/signals/cell.go.

-- Owner: internal/signals
CREATE TABLE signal_cells (
    id             TEXT PRIMARY KEY, -- hash of the six columns after it
    org_id         TEXT NOT NULL,
    level          TEXT NOT NULL,
    skill_name     TEXT NOT NULL,
    form           TEXT NOT NULL, -- event or session
    signal_type    TEXT NOT NULL,
    class          TEXT NOT NULL, -- a day, a week, a grade, ...
    signals        BIGINT NOT NULL,
    contributors   BIGINT NOT NULL, -- distinct
    few            TEXT NOT NULL, -- the contributors while there are one or two
    confidence_sum BIGINT NOT NULL, -- billionths
    last_day       BIGINT NOT NULL
);
CREATE INDEX signal_cells_read ON signal_cells (org_id, level, skill_name);

-- Owner: internal/signals
CREATE TABLE signal_contributors (
    id TEXT PRIMARY KEY -- hash of cell and contributor
);
