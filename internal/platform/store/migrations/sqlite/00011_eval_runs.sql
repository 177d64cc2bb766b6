-- +goose Up
-- Owner: internal/evals
CREATE TABLE eval_runs (
    id            TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL REFERENCES organisations (id),
    suite_id      TEXT NOT NULL REFERENCES eval_suites (id) ON DELETE CASCADE,
    source_id     TEXT, -- the cloud source that the run says something about
    status        TEXT NOT NULL, -- queued, running, succeeded, failed, cancelled
    subject       TEXT NOT NULL, -- JSON: what was asked for, and the skill found
    previous      TEXT, -- JSON: the skill of the baseline "previous"
    distractors   TEXT, -- JSON: what the skill competes with; null if no case asks
    trials        INTEGER NOT NULL,
    baseline      TEXT NOT NULL, -- none, no_skill, previous
    seed          INTEGER NOT NULL,
    judge         TEXT, -- JSON; null if no case needs one
    total         INTEGER NOT NULL, -- units of work: trials of cases
    done          INTEGER NOT NULL,
    last_event    INTEGER NOT NULL, -- number of the newest event
    passed        INTEGER NOT NULL, -- cases, like the next three; 0 until the end
    failed        INTEGER NOT NULL,
    errors        INTEGER NOT NULL,
    skipped       INTEGER NOT NULL,
    pass_rate     REAL,
    interval_low  REAL,
    interval_high REAL,
    pass_k        REAL,
    base_rate     REAL, -- the baseline's, on the cases that both decided
    base_delta    REAL,
    base_gain     REAL,
    error         TEXT,
    created_by    TEXT NOT NULL REFERENCES users (id),
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,
    finished_at   INTEGER,
    verifier_kind TEXT NOT NULL, -- of the suite, like the rest, when the run was made
    no_skill      INTEGER NOT NULL,
    case_count    INTEGER NOT NULL,
    cases         TEXT NOT NULL -- the suite's; last, so that reading the others does not read it
) STRICT;
CREATE INDEX eval_runs_suite ON eval_runs (suite_id, id);
CREATE INDEX eval_runs_source ON eval_runs (source_id, suite_id, id) WHERE source_id IS NOT NULL;

-- Owner: internal/evals
CREATE TABLE eval_run_trials (
    run_id      TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    case_index  INTEGER NOT NULL, -- the case's place in the run's cases
    variant     TEXT NOT NULL, -- skill, no_skill, previous
    n           INTEGER NOT NULL, -- from 1
    verdict     TEXT NOT NULL, -- pass, fail, error, skipped
    score       REAL,
    duration_ms INTEGER NOT NULL,
    error       TEXT,
    evidence    TEXT NOT NULL, -- JSON
    output_tail TEXT NOT NULL,
    PRIMARY KEY (run_id, case_index, variant, n)
) STRICT;

-- Owner: internal/evals
CREATE TABLE eval_run_cases (
    run_id         TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    case_id        TEXT NOT NULL,
    query          TEXT, -- of the cases that have one
    should_trigger INTEGER NOT NULL,
    verdict        TEXT NOT NULL,
    invocation     TEXT NOT NULL, -- how the skill is called; empty if the case does not say
    PRIMARY KEY (run_id, case_id)
) STRICT;

-- Owner: internal/evals
CREATE TABLE eval_run_events (
    run_id     TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    id         INTEGER NOT NULL, -- from 1, without gaps
    name       TEXT NOT NULL, -- progress, case, status
    data       TEXT NOT NULL, -- JSON
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT;
