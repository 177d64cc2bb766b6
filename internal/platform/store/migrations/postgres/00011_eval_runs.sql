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
    trials        BIGINT NOT NULL,
    baseline      TEXT NOT NULL, -- none, no_skill, previous
    seed          BIGINT NOT NULL,
    judge         TEXT, -- JSON; null if no case needs one
    total         BIGINT NOT NULL, -- units of work: trials of cases
    done          BIGINT NOT NULL,
    last_event    BIGINT NOT NULL, -- number of the newest event
    passed        BIGINT NOT NULL, -- cases, like the next three; 0 until the end
    failed        BIGINT NOT NULL,
    errors        BIGINT NOT NULL,
    skipped       BIGINT NOT NULL,
    pass_rate     DOUBLE PRECISION,
    interval_low  DOUBLE PRECISION,
    interval_high DOUBLE PRECISION,
    pass_k        DOUBLE PRECISION,
    base_rate     DOUBLE PRECISION, -- the baseline's, on the cases that both decided
    base_delta    DOUBLE PRECISION,
    base_gain     DOUBLE PRECISION,
    error         TEXT,
    created_by    TEXT NOT NULL REFERENCES users (id),
    created_at    BIGINT NOT NULL,
    started_at    BIGINT,
    finished_at   BIGINT,
    verifier_kind TEXT NOT NULL, -- of the suite, like the rest, when the run was made
    no_skill      BOOLEAN NOT NULL,
    case_count    BIGINT NOT NULL,
    cases         TEXT NOT NULL -- the suite's; last, so that reading the others does not read it
);
CREATE INDEX eval_runs_suite ON eval_runs (suite_id, id);
CREATE INDEX eval_runs_source ON eval_runs (source_id, suite_id, id) WHERE source_id IS NOT NULL;

-- Owner: internal/evals
CREATE TABLE eval_run_trials (
    run_id      TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    case_index  BIGINT NOT NULL, -- the case's place in the run's cases
    variant     TEXT NOT NULL, -- skill, no_skill, previous
    n           BIGINT NOT NULL, -- from 1
    verdict     TEXT NOT NULL, -- pass, fail, error, skipped
    score       DOUBLE PRECISION,
    duration_ms BIGINT NOT NULL,
    error       TEXT,
    evidence    TEXT NOT NULL, -- JSON
    output_tail TEXT NOT NULL,
    PRIMARY KEY (run_id, case_index, variant, n)
);

-- Owner: internal/evals
CREATE TABLE eval_run_cases (
    run_id         TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    case_id        TEXT NOT NULL,
    query          TEXT, -- of the cases that have one
    should_trigger BOOLEAN NOT NULL,
    verdict        TEXT NOT NULL,
    invocation     TEXT NOT NULL, -- how the skill is called; empty if the case does not say
    PRIMARY KEY (run_id, case_id)
);

-- Owner: internal/evals
CREATE TABLE eval_run_events (
    run_id     TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    id         BIGINT NOT NULL, -- from 1, without gaps
    name       TEXT NOT NULL, -- progress, case, status
    data       TEXT NOT NULL, -- JSON
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, id)
);
