-- +goose Up
-- Oldest binary: 31

-- The mail with the link of an invitation, if a mail server is configured. The link is
-- not stored: it is made anew from the id of the invitation and a secret of the installation.
-- Owner: internal/auth
CREATE TABLE invitation_mails (
    invitation_id   TEXT PRIMARY KEY REFERENCES invitations (id) ON DELETE CASCADE,
    org_id          TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    status          TEXT NOT NULL, -- pending, retrying, delivered or failed
    attempts        INTEGER NOT NULL,
    response_status INTEGER,
    detail          TEXT,
    attempted_at    INTEGER,
    next_attempt_at INTEGER,
    leased_until    INTEGER, -- while it is being sent
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX invitation_mails_org ON invitation_mails (org_id, created_at);
