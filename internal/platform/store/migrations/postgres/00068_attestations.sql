-- +goose Up
-- What this installation knows about a version is signed: where it comes from, and
-- what its gate or a run showed. The commit and the folder that a code host's
-- version was taken from were not kept before.

ALTER TABLE registry_versions ADD COLUMN source_commit TEXT;
ALTER TABLE registry_versions ADD COLUMN source_path TEXT;

-- Owner: internal/attestations
CREATE TABLE signing_keys (
    id          TEXT PRIMARY KEY, -- SHA-256 of the public key, hex
    public_key  TEXT NOT NULL, -- PEM
    private_key TEXT, -- sealed; null once another key signs
    active      BOOLEAN UNIQUE, -- true for the key that signs; null for the others
    endorsement TEXT, -- JSON: an envelope in which the key before names this one
    created_at  BIGINT NOT NULL,
    retired_at  BIGINT,
    revoked_at  BIGINT,
    reason      TEXT NOT NULL -- why it was revoked
);

-- Owner: internal/attestations
CREATE TABLE attestations (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    version_id TEXT NOT NULL REFERENCES registry_versions (id) ON DELETE CASCADE,
    kind       TEXT NOT NULL, -- provenance, gate, override, run
    ref        TEXT NOT NULL, -- id of the gate or the run
    statement  TEXT NOT NULL, -- JSON, as it was signed
    key_id     TEXT NOT NULL REFERENCES signing_keys (id),
    signature  TEXT NOT NULL, -- base64
    created_at BIGINT NOT NULL,
    UNIQUE (version_id, kind, ref)
);
CREATE INDEX attestations_key ON attestations (key_id);

-- Versions that were there before are signed by a job.
-- Owner: internal/attestations
CREATE TABLE attestation_backfill (
    after_id TEXT NOT NULL -- the last version that is done; no row: all are
);
INSERT INTO attestation_backfill (after_id) SELECT '' WHERE EXISTS (SELECT 1 FROM registry_versions);

-- A run that was made for a gate has no statement of its own.
CREATE INDEX gate_runs_run ON gate_runs (run_id);
