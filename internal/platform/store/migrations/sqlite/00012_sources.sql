-- +goose Up
-- Owner: internal/sources
CREATE TABLE cloud_sources (
    id                  TEXT PRIMARY KEY, -- without the prefix that the API shows
    org_id              TEXT NOT NULL REFERENCES organisations (id),
    label               TEXT NOT NULL,
    source_type         TEXT NOT NULL, -- upload, repohost
    skill_id            TEXT REFERENCES skills (id), -- the skill it is measured as
    installation_id     INTEGER, -- these four of a repohost source only
    repo_full_name      TEXT,
    default_branch      TEXT,
    skill_path          TEXT,
    current_snapshot_id TEXT, -- null before the first
    suggested_at        INTEGER NOT NULL, -- as of when its suggestions are
    created_by          TEXT NOT NULL REFERENCES users (id),
    created_at          INTEGER NOT NULL
) STRICT;
CREATE INDEX cloud_sources_org ON cloud_sources (org_id, id);
CREATE INDEX cloud_sources_linked ON cloud_sources (org_id) WHERE skill_id IS NOT NULL;

-- Owner: internal/sources
CREATE TABLE source_snapshots (
    id           TEXT PRIMARY KEY,
    org_id       TEXT NOT NULL,
    source_id    TEXT NOT NULL REFERENCES cloud_sources (id),
    content_hash TEXT NOT NULL, -- SHA-256 of the canonical archive
    total_bytes  INTEGER NOT NULL,
    files        TEXT NOT NULL, -- JSON
    skill_name   TEXT NOT NULL,
    description  TEXT NOT NULL,
    runnable     INTEGER NOT NULL, -- its validation did not fail
    commit_sha   TEXT,
    ref          TEXT,
    created_by   TEXT NOT NULL REFERENCES users (id),
    created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX source_snapshots_source ON source_snapshots (source_id, created_at, id);

-- Owner: internal/sources
CREATE TABLE source_reports (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL,
    snapshot_id TEXT NOT NULL REFERENCES source_snapshots (id),
    engine      TEXT NOT NULL,
    status      TEXT NOT NULL, -- pass, warn, fail
    findings    TEXT NOT NULL, -- JSON
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX source_reports_snapshot ON source_reports (snapshot_id, id);

-- Owner: internal/sources
CREATE TABLE source_suggestions (
    id               TEXT PRIMARY KEY, -- UUIDv5 of source, normalised query and should_trigger
    org_id           TEXT NOT NULL,
    source_id        TEXT NOT NULL REFERENCES cloud_sources (id),
    prompt_ref       TEXT, -- names the text in telemetry, which is not copied: it goes when it goes there
    query            TEXT, -- of a run's case, instead
    should_trigger   INTEGER NOT NULL,
    evidence         TEXT NOT NULL, -- linked_telemetry, hosted_run
    provenance       TEXT NOT NULL,
    rationale        TEXT NOT NULL,
    observed_count   INTEGER NOT NULL,
    confidence       REAL NOT NULL,
    last_observed_at INTEGER NOT NULL,
    invocation_type  TEXT,
    reviewed         INTEGER NOT NULL -- a review stands in source_reviews
) STRICT;
CREATE INDEX source_suggestions_pending ON source_suggestions (source_id, confidence, observed_count, last_observed_at, id) WHERE NOT reviewed;
CREATE INDEX source_suggestions_source ON source_suggestions (source_id);

-- Owner: internal/sources
CREATE TABLE source_reviews (
    id               TEXT PRIMARY KEY,
    org_id           TEXT NOT NULL,
    source_id        TEXT NOT NULL REFERENCES cloud_sources (id),
    suggestion_id    TEXT NOT NULL,
    review_status    TEXT NOT NULL, -- accepted, rejected
    accept_target    TEXT, -- draft, saved_suite
    applied_suite_id TEXT,
    query            TEXT NOT NULL,
    should_trigger   INTEGER NOT NULL,
    evidence         TEXT NOT NULL,
    provenance       TEXT NOT NULL,
    rationale        TEXT,
    observed_count   REAL,
    confidence       REAL,
    last_observed_at INTEGER,
    invocation_type  TEXT,
    reviewed_by      TEXT NOT NULL REFERENCES users (id),
    reviewed_at      INTEGER NOT NULL,
    applied_at       INTEGER,
    UNIQUE (source_id, suggestion_id)
) STRICT;
CREATE INDEX source_reviews_newest ON source_reviews (source_id, reviewed_at, id);
