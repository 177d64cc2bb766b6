-- +goose Up
-- Improve runs change the whole SKILL.md, and score their candidates by ordinary
-- eval runs. These are labelled, so that they count for nothing else. What comes
-- beside eval_runs and improve_runs is in tables of its own: their last columns
-- are large.

-- Owner: internal/runs
CREATE TABLE eval_run_purposes (
    run_id         TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    improve_run_id TEXT NOT NULL -- that the run was made for
);
CREATE INDEX eval_run_purposes_improve ON eval_run_purposes (improve_run_id);

-- Owner: internal/improve
CREATE TABLE improve_searches (
    run_id   TEXT PRIMARY KEY REFERENCES improve_runs (id) ON DELETE CASCADE,
    terms    TEXT NOT NULL, -- JSON: what to change, and what the run may cost
    phase    TEXT NOT NULL, -- current, search, proof
    writing  TEXT NOT NULL, -- JSON: what the writer has cost
    cost     TEXT NOT NULL, -- JSON: of all so far
    proof    TEXT, -- JSON: what the proof shows
    cases    TEXT NOT NULL, -- JSON: id, digest, group, part
    skill_md TEXT NOT NULL -- of the current version
);

-- Owner: internal/improve
CREATE TABLE improve_candidates (
    run_id    TEXT NOT NULL REFERENCES improve_runs (id) ON DELETE CASCADE,
    n         BIGINT NOT NULL, -- of the iteration
    parent    BIGINT NOT NULL, -- the iteration that it was made from
    partner   BIGINT, -- the other one that it merges
    stage     TEXT NOT NULL, -- written, minibatch, selection, done
    source_id TEXT, -- holds its files while it is tried
    minibatch TEXT NOT NULL, -- JSON: ids of cases
    edits     TEXT NOT NULL, -- JSON: that made it from its parent
    skill_md  TEXT NOT NULL,
    PRIMARY KEY (run_id, n)
);

-- The eval runs of an improve run.

-- Owner: internal/improve
CREATE TABLE improve_trials (
    improve_run_id TEXT NOT NULL REFERENCES improve_runs (id) ON DELETE CASCADE,
    n              BIGINT NOT NULL, -- of the iteration that it was made for
    step           TEXT NOT NULL, -- current, rollout, minibatch, selection, proof, rest
    arm            TEXT NOT NULL, -- candidate, current
    run_id         TEXT NOT NULL,
    PRIMARY KEY (improve_run_id, n, step, arm)
);

-- The sources that hold candidates. There is no reference to improve_runs: the
-- files are deleted after it.

-- Owner: internal/improve
CREATE TABLE improve_sources (
    source_id TEXT PRIMARY KEY,
    org_id    TEXT NOT NULL REFERENCES organisations (id),
    run_id    TEXT NOT NULL
);
CREATE INDEX improve_sources_run ON improve_sources (run_id);

-- How often a case was part of a proof. It is found again by its content.

-- Owner: internal/improve
CREATE TABLE improve_proofs (
    suite_id TEXT NOT NULL REFERENCES eval_suites (id) ON DELETE CASCADE,
    digest   TEXT NOT NULL,
    times    BIGINT NOT NULL,
    PRIMARY KEY (suite_id, digest)
);
