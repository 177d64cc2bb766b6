-- +goose Up
-- What a connection knows of its repository, and what it does beyond publishing.
ALTER TABLE repohost_connections ADD COLUMN host_default TEXT NOT NULL DEFAULT ''; -- the repository's default branch as last seen
ALTER TABLE repohost_connections ADD COLUMN publish_unchanged INTEGER NOT NULL DEFAULT 0; -- publish pushes that leave the folder as it is
ALTER TABLE repohost_connections ADD COLUMN open_issues INTEGER NOT NULL DEFAULT 0; -- for incidents

-- Alerts that gather evidence session by session, and that people answer.
ALTER TABLE alert_rules ADD COLUMN snoozed_until INTEGER;
ALTER TABLE alert_states ADD COLUMN acknowledged_at INTEGER;
ALTER TABLE alert_states ADD COLUMN acknowledged_by TEXT;
ALTER TABLE alert_states ADD COLUMN evidence REAL; -- of a fallen pass rate
ALTER TABLE alert_states ADD COLUMN evidence_limit REAL; -- at which it fires
ALTER TABLE alert_states ADD COLUMN evidence_sessions INTEGER NOT NULL DEFAULT 0; -- that it was gathered from
ALTER TABLE alert_states ADD COLUMN evidence_of TEXT NOT NULL DEFAULT ''; -- the figures that it was computed from
ALTER TABLE alert_events ADD COLUMN measured REAL; -- what the alert watches: a pass rate, a cost, a share
ALTER TABLE alert_events ADD COLUMN reference REAL; -- what that is compared with
ALTER TABLE alert_events ADD COLUMN reference_version TEXT;
ALTER TABLE alert_events ADD COLUMN evidence REAL;
ALTER TABLE alert_events ADD COLUMN evidence_limit REAL;
ALTER TABLE alert_events ADD COLUMN last_graded_at INTEGER;
CREATE INDEX skill_gradings_graded ON skill_gradings (skill_id, graded_at);

ALTER TABLE registry_rollbacks ADD COLUMN published TEXT; -- rolled forward: the version that has the content of to_version

-- A rollback by an alert, from the event that caused it to the last installation
-- that has left the bad version.

-- Owner: internal/incidents
CREATE TABLE incidents (
    id               TEXT PRIMARY KEY, -- of the event in alert_events
    org_id           TEXT NOT NULL,
    rule_id          TEXT NOT NULL,
    skill_id         TEXT NOT NULL,
    skill_name       TEXT NOT NULL,
    entry_id         TEXT NOT NULL,
    version_id       TEXT NOT NULL, -- the bad version
    version          TEXT NOT NULL,
    good_version     TEXT NOT NULL, -- current since
    evidence         TEXT NOT NULL, -- in words
    connection_id    TEXT, -- null: the bad version came from no commit
    attempt_id       TEXT,
    commit_sha       TEXT,
    commit_status    TEXT NOT NULL, -- none, pending, done or failed
    commit_detail    TEXT NOT NULL,
    issue_status     TEXT NOT NULL, -- none, pending, done, closed or failed
    issue_detail     TEXT NOT NULL,
    issue_number     INTEGER,
    issue_url        TEXT,
    tries            INTEGER NOT NULL, -- at the code host, since it last answered
    installations    INTEGER NOT NULL, -- that still have the bad version
    told_at          INTEGER, -- when the channel was told which
    opened_at        INTEGER NOT NULL,
    closed_at        INTEGER
) STRICT;
CREATE INDEX incidents_org ON incidents (org_id, id);
CREATE INDEX incidents_open ON incidents (id) WHERE closed_at IS NULL;
