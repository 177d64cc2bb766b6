-- +goose Up
-- Oldest binary: 31

-- Owner: internal/prove/comparisons
CREATE TABLE comparisons (
    id         TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL REFERENCES organisations (id),
    suite_id   TEXT NOT NULL, -- may be deleted
    status     TEXT NOT NULL, -- as of eval_runs
    trials     BIGINT NOT NULL,
    preference BOOLEAN NOT NULL,
    margin     DOUBLE PRECISION NOT NULL,
    max_micros BIGINT, -- that all arms may cost together
    seed       BIGINT NOT NULL,
    result     TEXT, -- JSON; NULL until it is over
    error      TEXT,
    created_by TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at   BIGINT
);
CREATE INDEX comparisons_org ON comparisons (org_id, id);
CREATE INDEX comparisons_suite ON comparisons (suite_id, id);

-- Owner: internal/prove/comparisons
CREATE TABLE comparison_arms (
    comparison_id TEXT NOT NULL REFERENCES comparisons (id) ON DELETE CASCADE,
    position      BIGINT NOT NULL,
    name          TEXT NOT NULL,
    subject       TEXT NOT NULL, -- JSON; {} for no skill
    entry_id      TEXT, -- of subject
    agent         TEXT, -- JSON
    label         TEXT NOT NULL, -- the version that was found
    run_id        TEXT NOT NULL, -- of an earlier comparison where that is as good
    conditions    TEXT NOT NULL, -- digest of the content and of all that the outcome depends on
    reused        BOOLEAN NOT NULL,
    PRIMARY KEY (comparison_id, position)
);
CREATE INDEX comparison_arms_run ON comparison_arms (run_id);
CREATE INDEX comparison_arms_entry ON comparison_arms (entry_id, comparison_id) WHERE entry_id IS NOT NULL;
CREATE INDEX comparison_arms_conditions ON comparison_arms (conditions, comparison_id);

-- What the judge answered about a pair of outputs.
-- Owner: internal/prove/comparisons
CREATE TABLE comparison_preferences (
    comparison_id TEXT NOT NULL REFERENCES comparisons (id) ON DELETE CASCADE,
    a             BIGINT NOT NULL, -- position of an arm
    b             BIGINT NOT NULL,
    case_id       TEXT NOT NULL,
    n             BIGINT NOT NULL, -- the trial
    kind          TEXT NOT NULL, -- pair, same, cut
    answer        TEXT NOT NULL, -- JSON
    PRIMARY KEY (comparison_id, a, b, case_id, n, kind)
);
