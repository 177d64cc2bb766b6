-- +goose Up
-- Oldest binary: 31

-- Outgoing events: webhooks of other systems that are told what happens in an
-- organisation.
-- Owner: internal/events
CREATE TABLE event_webhooks (
    id               TEXT PRIMARY KEY,
    org_id           TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    url              TEXT NOT NULL, -- sealed
    secret           TEXT NOT NULL, -- sealed; signs
    old_secret       TEXT, -- sealed; signs beside secret until old_secret_until
    old_secret_until INTEGER,
    events           TEXT NOT NULL, -- types, with spaces between them
    paused           INTEGER NOT NULL,
    paused_reason    TEXT, -- null: a person paused it
    created_by       TEXT NOT NULL, -- the user
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX event_webhooks_org ON event_webhooks (org_id, id);

-- What happened, while somebody wants to be told of it.
-- Owner: internal/events
CREATE TABLE event_records (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    type        TEXT NOT NULL,
    path        TEXT NOT NULL, -- page about it; '' for none
    data        TEXT NOT NULL, -- JSON object
    occurred_at INTEGER NOT NULL
) STRICT;
CREATE INDEX event_records_org ON event_records (org_id);
CREATE INDEX event_records_age ON event_records (occurred_at);

-- A webhook may be deleted while an event is written: no foreign key, which would
-- fail the change that caused the event.
-- Owner: internal/events
CREATE TABLE event_deliveries (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    webhook_id      TEXT NOT NULL,
    event_id        TEXT, -- null for a test
    event_type      TEXT NOT NULL,
    replay_of       TEXT, -- the delivery that a person sent again
    queued          INTEGER NOT NULL, -- it has a job
    status          TEXT NOT NULL, -- pending, retrying, delivered or failed
    attempts        INTEGER NOT NULL,
    response_status INTEGER,
    detail          TEXT,
    created_at      INTEGER NOT NULL,
    attempted_at    INTEGER,
    next_attempt_at INTEGER
) STRICT;
CREATE INDEX event_deliveries_webhook ON event_deliveries (webhook_id, id);
CREATE INDEX event_deliveries_org ON event_deliveries (org_id);
CREATE INDEX event_deliveries_age ON event_deliveries (created_at);
CREATE INDEX event_deliveries_unqueued ON event_deliveries (id) WHERE NOT queued;

-- The audit log is sent to a collector up to here. One row.
-- Owner: internal/audit
CREATE TABLE audit_export (
    id      INTEGER PRIMARY KEY,
    sent_at INTEGER NOT NULL -- the time of the newest entry that was sent
) STRICT;

-- Entries that were sent and may not be the last of their time: a transaction that
-- commits later may have an entry from before.
-- Owner: internal/audit
CREATE TABLE audit_exported (
    entry_id TEXT PRIMARY KEY,
    at       INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_exported_age ON audit_exported (at);
