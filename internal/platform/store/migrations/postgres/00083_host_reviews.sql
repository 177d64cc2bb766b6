-- +goose Up
-- Oldest binary: 31

-- Reviews of pull requests on the code host count as approvals.
ALTER TABLE version_approvals ADD COLUMN review TEXT; -- JSON; null: decided here

-- What the last look at the pull request of a candidate found.
-- Owner: internal/approvals
CREATE TABLE candidate_reviews (
    version_id TEXT PRIMARY KEY REFERENCES registry_versions (id) ON DELETE CASCADE,
    org_id     TEXT NOT NULL REFERENCES organisations (id) ON DELETE CASCADE,
    looks      BIGINT NOT NULL, -- how many: of two at the same time, one begins again
    found      TEXT NOT NULL, -- JSON
    looked_at  BIGINT NOT NULL
);
CREATE INDEX candidate_reviews_org ON candidate_reviews (org_id);
