-- +goose Up
-- Owner: internal/evals
CREATE TABLE improve_runs (
    id             TEXT PRIMARY KEY,
    org_id         TEXT NOT NULL REFERENCES organisations (id),
    suite_id       TEXT NOT NULL REFERENCES eval_suites (id) ON DELETE CASCADE,
    status         TEXT NOT NULL, -- queued, running, succeeded, no_winner, failed_transient, failed_terminal, cancelled
    subject        TEXT NOT NULL, -- JSON: what was asked for, and the skill found
    description    TEXT NOT NULL, -- the skill's when the run was made
    distractors    TEXT NOT NULL, -- JSON: what the skill competes with
    max_iterations INTEGER NOT NULL,
    holdout        REAL NOT NULL, -- share of the queries that only decide
    seed           INTEGER NOT NULL,
    judge          TEXT NOT NULL, -- JSON
    train_count    INTEGER NOT NULL, -- queries, like the next
    holdout_count  INTEGER NOT NULL,
    left_out       INTEGER NOT NULL, -- cases of the suite that were not taken
    done           INTEGER NOT NULL, -- trials
    total          INTEGER NOT NULL,
    winner         INTEGER, -- number of an iteration
    proposal_id    TEXT,
    error          TEXT,
    created_by     TEXT NOT NULL REFERENCES users (id),
    created_at     INTEGER NOT NULL,
    started_at     INTEGER,
    finished_at    INTEGER,
    queries        TEXT NOT NULL -- JSON; last, so that reading the others does not read it
) STRICT;
CREATE INDEX improve_runs_org ON improve_runs (org_id, id);
CREATE INDEX improve_runs_suite ON improve_runs (suite_id, id);

-- Owner: internal/evals
CREATE TABLE improve_iterations (
    run_id         TEXT NOT NULL REFERENCES improve_runs (id) ON DELETE CASCADE,
    n              INTEGER NOT NULL, -- 0 for the description that the skill has
    description    TEXT, -- null if none came of the iteration
    reason         TEXT NOT NULL, -- the writer's
    problem        TEXT, -- why it cannot win
    train_passed   INTEGER NOT NULL, -- queries, like the next four
    train_cases    INTEGER NOT NULL, -- those with a verdict
    holdout_passed INTEGER NOT NULL,
    holdout_cases  INTEGER NOT NULL,
    errors         INTEGER NOT NULL, -- without a verdict
    results        TEXT NOT NULL, -- JSON: of each query of the run; last as queries
    PRIMARY KEY (run_id, n)
) STRICT;
