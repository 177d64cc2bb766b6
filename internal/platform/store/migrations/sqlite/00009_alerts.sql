-- +goose Up
-- Owner: internal/alerts
CREATE TABLE alert_rules (
    id               TEXT PRIMARY KEY,
    org_id           TEXT NOT NULL REFERENCES organisations (id),
    skill_id         TEXT REFERENCES skills (id), -- null: all skills
    type             TEXT NOT NULL,
    threshold        REAL NOT NULL,
    sensitivity      TEXT NOT NULL,
    action           TEXT, -- rollback, or null
    channel          TEXT NOT NULL,
    address          TEXT NOT NULL, -- URL or e-mail address; shown masked only
    secret           TEXT, -- signs webhooks
    old_secret       TEXT, -- signs beside it after a rotation
    old_secret_until INTEGER,
    enabled          INTEGER NOT NULL,
    disabled_reason  TEXT,
    created_by       TEXT NOT NULL REFERENCES users (id),
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL
) STRICT;
CREATE INDEX alert_rules_org ON alert_rules (org_id, id);

-- Owner: internal/alerts
CREATE TABLE alert_states (
    rule_id        TEXT NOT NULL REFERENCES alert_rules (id),
    skill_id       TEXT NOT NULL,
    state          TEXT NOT NULL,
    since          INTEGER NOT NULL,
    good_streak    INTEGER NOT NULL, -- evaluations in a row that were fine while firing
    sequence       INTEGER NOT NULL, -- notices so far
    episode_id     TEXT, -- the event that began the firing
    last_notice_at INTEGER,
    PRIMARY KEY (rule_id, skill_id)
) STRICT;

-- Owner: internal/alerts
CREATE TABLE alert_events (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL,
    rule_id         TEXT NOT NULL,
    skill_id        TEXT NOT NULL,
    skill_name      TEXT NOT NULL,
    type            TEXT NOT NULL,
    transition      TEXT NOT NULL, -- firing, resolved or reminder
    threshold       REAL NOT NULL,
    pass_rate       REAL,
    interval_low    REAL,
    interval_high   REAL,
    graded_sessions INTEGER NOT NULL,
    days_silent     REAL,
    window_from     INTEGER NOT NULL,
    window_to       INTEGER NOT NULL,
    last_session_at INTEGER,
    sequence        INTEGER NOT NULL,
    episode_id      TEXT NOT NULL,
    firing_since    INTEGER NOT NULL,
    version         TEXT, -- current in the registry at that time
    note            TEXT,
    occurred_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX alert_events_org ON alert_events (org_id, id);
CREATE INDEX alert_events_rule ON alert_events (rule_id, id);

-- Owner: internal/alerts
CREATE TABLE alert_deliveries (
    id              TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL,
    rule_id         TEXT NOT NULL,
    event_id        TEXT, -- null for a test
    channel         TEXT NOT NULL,
    status          TEXT NOT NULL, -- pending, retrying, delivered or failed
    attempts        INTEGER NOT NULL,
    response_status INTEGER,
    detail          TEXT,
    created_at      INTEGER NOT NULL,
    attempted_at    INTEGER,
    next_attempt_at INTEGER
) STRICT;
CREATE INDEX alert_deliveries_rule ON alert_deliveries (rule_id, id);
