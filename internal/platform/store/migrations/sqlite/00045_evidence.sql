-- +goose Up
-- What was said in sessions of agents, where the organisation keeps it: sealed, and
-- without secrets and addresses.

-- Owner: internal/evidence
CREATE TABLE evidence_settings (
    org_id     TEXT PRIMARY KEY REFERENCES organisations (id) ON DELETE CASCADE,
    enabled    INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT;

-- A session of which something is kept.
-- Owner: internal/evidence
CREATE TABLE evidence_sessions (
    id      TEXT PRIMARY KEY, -- agent_sessions.id
    org_id  TEXT NOT NULL,
    user_id TEXT NOT NULL,
    name    TEXT NOT NULL, -- agent_sessions.session_id
    texts   INTEGER NOT NULL, -- these count the rows of evidence_texts
    bytes   INTEGER NOT NULL, -- of the texts in clear
    stored  INTEGER NOT NULL -- of the texts as they are sealed
) STRICT;
CREATE INDEX evidence_sessions_org ON evidence_sessions (org_id, id, stored);
CREATE INDEX evidence_sessions_user ON evidence_sessions (user_id);

-- Owner: internal/evidence
CREATE TABLE evidence_texts (
    session_id  TEXT NOT NULL, -- evidence_sessions.id
    event_id    TEXT NOT NULL, -- agent_session_events.id or cost_requests.id
    at          INTEGER NOT NULL,
    length      INTEGER NOT NULL, -- of the text as it was sent
    bytes       INTEGER NOT NULL,
    stored      INTEGER NOT NULL,
    key_id      TEXT NOT NULL, -- of the key that sealed it
    received_at INTEGER NOT NULL, -- the retention counts from it
    sealed      BLOB NOT NULL,
    PRIMARY KEY (session_id, event_id)
) STRICT;
CREATE INDEX evidence_texts_received ON evidence_texts (received_at);
CREATE INDEX evidence_texts_key ON evidence_texts (key_id);
