-- +goose Up
-- Oldest binary: 31

-- An organisation that deleted itself: its keys and sessions end at once, and a job
-- deletes its rows.
ALTER TABLE organisations ADD COLUMN deleted_at BIGINT;

-- Archives of all that organisations have. The bytes are blobs.

-- Owner: internal/privacy
CREATE TABLE organisation_exports (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    created_by  TEXT NOT NULL, -- the user
    state       TEXT NOT NULL, -- queued, running, done, failed, expired
    row_count   BIGINT NOT NULL, -- so far
    blob_count  BIGINT NOT NULL, -- so far
    size        BIGINT NOT NULL, -- of the archive; 0 until it is done
    sha256      TEXT NOT NULL, -- of the archive; empty until it is done
    created_at  BIGINT NOT NULL,
    finished_at BIGINT,
    expires_at  BIGINT
);
CREATE INDEX organisation_exports_org ON organisation_exports (org_id, id);

-- What the operator keeps of an organisation that deleted itself. It names no person.

-- Owner: internal/privacy
CREATE TABLE organisation_deletions (
    id           TEXT PRIMARY KEY, -- that the organisation had
    requested_at BIGINT NOT NULL,
    finished_at  BIGINT, -- when the last row was deleted
    row_count    BIGINT NOT NULL,
    blob_count   BIGINT NOT NULL
);
