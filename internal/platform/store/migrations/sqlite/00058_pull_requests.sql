-- +goose Up
-- What gates decide is said on the code host: on the commits that were pushed,
-- and on pull requests, whose heads are gated before they are merged.
ALTER TABLE repohost_connections ADD COLUMN pull_requests TEXT NOT NULL DEFAULT 'same_repository'; -- gated: off, same_repository, all
ALTER TABLE repohost_attempts ADD COLUMN reported TEXT NOT NULL DEFAULT ''; -- the gate that the check-run is about
ALTER TABLE repohost_attempts ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0; -- a worker writes back until then
ALTER TABLE repohost_attempts ADD COLUMN asked INTEGER NOT NULL DEFAULT 0; -- how often a write-back was asked for
CREATE INDEX repohost_attempts_version ON repohost_attempts (connection_id, version);

ALTER TABLE gates ADD COLUMN pull_id TEXT; -- the pull request whose head is tried instead of a version
ALTER TABLE gates ADD COLUMN pull TEXT; -- JSON: its number, commit, URL and the snapshot of its files
CREATE INDEX gates_pull ON gates (pull_id, id) WHERE pull_id IS NOT NULL;

-- Owner: internal/checks
CREATE TABLE pull_requests (
    id                TEXT PRIMARY KEY,
    org_id            TEXT NOT NULL REFERENCES organisations (id),
    connection_id     TEXT NOT NULL,
    entry_id          TEXT NOT NULL,
    repo_id           INTEGER NOT NULL, -- the code host's, which survives a rename
    number            INTEGER NOT NULL,
    title             TEXT NOT NULL,
    url               TEXT NOT NULL,
    head_sha          TEXT NOT NULL, -- the commit that the status is about; '' before one was read
    status            TEXT NOT NULL, -- queued, gating, decided, valid, refused, unchanged, skipped, failed, closed
    message           TEXT NOT NULL,
    findings          TEXT NOT NULL, -- JSON: of the validation
    source_id         TEXT, -- holds the files of the head while it is gated
    gate_id           TEXT,
    again             INTEGER NOT NULL, -- somebody asked for another gate of the same head
    tries             INTEGER NOT NULL, -- at the code host, since it last answered
    asked             INTEGER NOT NULL, -- how often a write-back was asked for
    write_back_status TEXT NOT NULL, -- disabled, pending, success, failed, unsupported
    write_back_detail TEXT NOT NULL,
    write_back_tries  INTEGER NOT NULL,
    reported          TEXT NOT NULL, -- what the check-run is about: the commit, and the gate if there is one
    check_run_id      TEXT,
    annotations_sent  INTEGER NOT NULL,
    held_until        INTEGER NOT NULL, -- a worker has it until then
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    UNIQUE (connection_id, number)
) STRICT;
CREATE INDEX pull_requests_org ON pull_requests (org_id, repo_id, number);

-- The one comment on a pull request, for all skills that it changes.

-- Owner: internal/checks
CREATE TABLE pull_comments (
    id         TEXT PRIMARY KEY, -- organisation/repository/number
    comment_id INTEGER NOT NULL, -- the code host's; 0 before there is one
    body       TEXT NOT NULL, -- as it was last sent
    tries      INTEGER NOT NULL,
    held_until INTEGER NOT NULL -- a worker has it until then
) STRICT;
