-- +goose Up
-- Owner: internal/evals
CREATE TABLE eval_suites (
    id                TEXT PRIMARY KEY,
    org_id            TEXT NOT NULL REFERENCES organisations (id),
    source_id         TEXT, -- of a cloud source, without its prefix
    name              TEXT NOT NULL,
    source_kind       TEXT NOT NULL,
    verifier_kind     TEXT NOT NULL,
    supports_no_skill BOOLEAN NOT NULL,
    resource_limits   TEXT, -- a JSON object
    case_count        BIGINT NOT NULL,
    kind              TEXT NOT NULL, -- task_package or cases
    issues            TEXT NOT NULL, -- why it cannot be run, as JSON; follows from the rest
    version           BIGINT NOT NULL, -- grows with every change
    created_by        TEXT NOT NULL REFERENCES users (id),
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    cases             TEXT NOT NULL -- a JSON array; last, so that reading the others does not read it
);
CREATE INDEX eval_suites_org ON eval_suites (org_id, id);
CREATE INDEX eval_suites_source ON eval_suites (source_id, id);

-- Owner: internal/evals
CREATE TABLE eval_environments (
    suite_id TEXT NOT NULL REFERENCES eval_suites (id),
    key      TEXT NOT NULL, -- of the blob that a case of the suite refers to
    PRIMARY KEY (suite_id, key)
);
CREATE INDEX eval_environments_key ON eval_environments (key);
