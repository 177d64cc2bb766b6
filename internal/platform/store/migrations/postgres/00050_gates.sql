-- +goose Up
-- A version that was pushed is a candidate until its gate lets it become
-- current. Versions from before gates, and without one, are published.

ALTER TABLE registry_versions ADD COLUMN state TEXT NOT NULL DEFAULT 'published'; -- candidate, published, withdrawn
ALTER TABLE registry_versions ADD COLUMN gate_id TEXT; -- the newest gate of the version

-- Owner: internal/gates
CREATE TABLE gate_policies (
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    entry_id   TEXT NOT NULL, -- '' for the organisation's default
    policy     TEXT NOT NULL, -- JSON
    updated_by TEXT NOT NULL REFERENCES users (id),
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, entry_id)
);

-- Owner: internal/gates
CREATE TABLE gates (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    entry_id   TEXT NOT NULL REFERENCES registry_entries (id),
    version_id TEXT NOT NULL,
    version    TEXT NOT NULL,
    against_id TEXT, -- the version that was current; null for the first one
    against    TEXT,
    status     TEXT NOT NULL, -- queued, running, decided, superseded, cancelled
    verdict    TEXT, -- pass, block, inconclusive, skipped
    reason     TEXT NOT NULL,
    policy     TEXT NOT NULL, -- JSON, as it was at the push
    created_by TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    decided_at BIGINT,
    override   TEXT, -- JSON: who, when, why
    result     TEXT NOT NULL -- JSON: what the trials of each suite showed, and their cost
);
CREATE INDEX gates_org ON gates (org_id, id);
CREATE INDEX gates_entry ON gates (entry_id, id);

-- Owner: internal/gates
CREATE TABLE gate_runs (
    gate_id    TEXT NOT NULL REFERENCES gates (id),
    suite_id   TEXT NOT NULL,
    step       TEXT NOT NULL, -- screen, confirm
    arm        TEXT NOT NULL, -- new, current
    run_id     TEXT NOT NULL, -- a run of an earlier gate where that is as good
    version_id TEXT NOT NULL,
    conditions TEXT NOT NULL, -- digest of all that the outcome depends on but the version
    PRIMARY KEY (gate_id, suite_id, step, arm)
);
CREATE INDEX gate_runs_version ON gate_runs (version_id, suite_id);
