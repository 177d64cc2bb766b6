-- +goose Up
-- What people decided about versions. Binaries of before would publish without
-- approvals what a policy asks them for: they refuse this schema.
-- Owner: internal/approvals
CREATE TABLE version_approvals (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    entry_id    TEXT NOT NULL, -- of the version
    version_id  TEXT NOT NULL REFERENCES registry_versions (id) ON DELETE CASCADE,
    user_id     TEXT NOT NULL REFERENCES users (id),
    decision    TEXT NOT NULL, -- approve, reject or comment
    comment     TEXT,
    created_at  BIGINT NOT NULL,
    replaced_at BIGINT -- by another decision of the same person
);
CREATE INDEX version_approvals_version ON version_approvals (version_id, id);
CREATE UNIQUE INDEX version_approvals_standing ON version_approvals (version_id, user_id)
    WHERE replaced_at IS NULL AND decision <> 'comment';

-- Which versions wait.
CREATE INDEX registry_versions_candidates ON registry_versions (entry_id) WHERE state = 'candidate';
