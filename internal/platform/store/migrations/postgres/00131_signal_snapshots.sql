-- +goose Up
-- Oldest binary: 31

-- When the published figures of an organisation were last brought up to date, and who has
-- sent signals since.
-- Owner: internal/signals
CREATE TABLE signal_snapshots (
    org_id   TEXT PRIMARY KEY REFERENCES organisations (id),
    since    TEXT NOT NULL, -- contributors, as in signal_cells
    taken_at BIGINT -- microseconds since the epoch, UTC; null before the first
);

-- The published figures of a cell are those of a snapshot: internal/signals/snapshot.go.
-- Owner: internal/signals
ALTER TABLE signal_cells ADD COLUMN published_signals BIGINT; -- null: not yet
-- Owner: internal/signals
ALTER TABLE signal_cells ADD COLUMN published_contributors BIGINT NOT NULL DEFAULT 0;
-- Owner: internal/signals
ALTER TABLE signal_cells ADD COLUMN published_few TEXT NOT NULL DEFAULT '';
-- Owner: internal/signals
ALTER TABLE signal_cells ADD COLUMN published_confidence_sum BIGINT NOT NULL DEFAULT 0;
-- Owner: internal/signals
ALTER TABLE signal_cells ADD COLUMN published_last_day BIGINT NOT NULL DEFAULT 0;
-- Owner: internal/signals
ALTER TABLE signal_cells ADD COLUMN revealed BIGINT NOT NULL DEFAULT 0; -- 1 if its figures were ever shown
-- Owner: internal/signals
ALTER TABLE signal_cells ADD COLUMN since TEXT NOT NULL DEFAULT ''; -- contributors since it was published, as many as k
-- Owner: internal/signals
ALTER TABLE signal_cells ADD COLUMN carried TEXT NOT NULL DEFAULT ''; -- those of them that its parent counts already
-- Owner: internal/signals
ALTER TABLE signal_cells ADD COLUMN carried_signals BIGINT NOT NULL DEFAULT 0; -- how many there were then
CREATE INDEX signal_cells_changed ON signal_cells (org_id, skill_name) WHERE since <> '';

-- Figures were live until now.
UPDATE signal_cells SET published_signals = signals, published_contributors = contributors, published_few = few,
    published_confidence_sum = confidence_sum, published_last_day = last_day,
    revealed = CASE WHEN few = '' THEN 1 ELSE 0 END;
INSERT INTO signal_snapshots (org_id, since, taken_at)
SELECT org_id, '', CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) FROM signal_cells
WHERE level = 'org' AND org_id IN (SELECT id FROM organisations);
