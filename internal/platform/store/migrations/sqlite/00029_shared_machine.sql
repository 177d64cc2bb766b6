-- +goose Up
-- Runs, the long jobs of one organisation, have workers of their own: internal/jobs/runs.go.
ALTER TABLE jobs ADD COLUMN org_id TEXT; -- whose run it is; null for every other job
DROP INDEX jobs_state;
CREATE INDEX jobs_state ON jobs (state, org_id, run_at, id);

-- When a run of each organisation was last claimed: round robin begins with whose that is longest ago.
-- Owner: internal/jobs
CREATE TABLE job_turns (
    org_id     TEXT PRIMARY KEY,
    claimed_at INTEGER NOT NULL
) STRICT;

-- How many bytes each organisation stores, by what they are of. A row changes by the difference that a change
-- makes, in its transaction.
-- Owner: internal/quota
CREATE TABLE stored_bytes (
    org_id TEXT NOT NULL REFERENCES organisations (id),
    kind   TEXT NOT NULL, -- registry, sources, evals, telemetry, community
    bytes  INTEGER NOT NULL,
    PRIMARY KEY (org_id, kind)
) STRICT;

-- What is there already and whose size only the blobs know counts as nothing: raw bodies leave with their
-- retention, environments are measured when their suite is changed.
ALTER TABLE telemetry_pushes ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0; -- of the body, inflated
ALTER TABLE eval_environments ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0; -- of the blob

INSERT INTO stored_bytes (org_id, kind, bytes)
SELECT org_id, 'registry', SUM(size) FROM (
    SELECT DISTINCT e.org_id, v.content_hash, v.size FROM registry_versions v JOIN registry_entries e ON e.id = v.entry_id) AS archives
GROUP BY org_id
UNION ALL SELECT org_id, 'sources', SUM(total_bytes) FROM source_snapshots GROUP BY org_id
UNION ALL SELECT org_id, 'community', SUM(octet_length(bundle)) FROM community_bundles GROUP BY org_id;
