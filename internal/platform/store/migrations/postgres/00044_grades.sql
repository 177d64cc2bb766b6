-- +goose Up
-- What a grade rests on; NULL: a producer pushed it. The counters by basis are of
-- the graded sessions, and what is pushed is the rest of them.
ALTER TABLE skill_gradings ADD COLUMN basis TEXT;
ALTER TABLE skill_session_grades ADD COLUMN basis TEXT;
ALTER TABLE skill_days ADD COLUMN person_sessions BIGINT NOT NULL DEFAULT 0;
ALTER TABLE skill_days ADD COLUMN person_sum BIGINT NOT NULL DEFAULT 0; -- billionths
ALTER TABLE skill_days ADD COLUMN judge_sessions BIGINT NOT NULL DEFAULT 0;
ALTER TABLE skill_days ADD COLUMN judge_sum BIGINT NOT NULL DEFAULT 0;
ALTER TABLE skill_days ADD COLUMN outcome_sessions BIGINT NOT NULL DEFAULT 0;
ALTER TABLE skill_days ADD COLUMN outcome_sum BIGINT NOT NULL DEFAULT 0;

-- What is known of a grading that was made here, not pushed. The verdict stays in
-- skill_gradings when this is erased.

-- Owner: internal/grades
CREATE TABLE grades (
    id           TEXT PRIMARY KEY, -- of skill_gradings
    org_id       TEXT NOT NULL,
    user_id      TEXT NOT NULL, -- whose session it is
    session_hash TEXT NOT NULL,
    skill_id     TEXT NOT NULL,
    basis        TEXT NOT NULL,
    pass_rate    BIGINT NOT NULL, -- billionths
    passed       BOOLEAN NOT NULL, -- the pass rate reaches the grader's threshold
    graded_by    TEXT, -- the person
    reason       TEXT,
    evidence     TEXT NOT NULL, -- JSON: the expectations and whether they passed
    judge        TEXT, -- JSON: how the verdict was made
    sealed       TEXT, -- encrypted JSON: what was quoted from the session
    graded_at    BIGINT NOT NULL
);
CREATE INDEX grades_session ON grades (session_hash, skill_id);
CREATE INDEX grades_skill ON grades (skill_id, basis, session_hash);
CREATE INDEX grades_user ON grades (user_id);
CREATE INDEX grades_person ON grades (graded_by) WHERE graded_by IS NOT NULL;
CREATE INDEX grades_graded ON grades (graded_at);

-- Why grades failed: one row for each reason.

-- Owner: internal/grades
CREATE TABLE grade_failures (
    grade_id     TEXT NOT NULL,
    key          TEXT NOT NULL, -- failures of one key are one group
    label        TEXT NOT NULL,
    skill_id     TEXT NOT NULL,
    basis        TEXT NOT NULL,
    session_key  TEXT NOT NULL, -- of skill_session_grades
    session_hash TEXT NOT NULL,
    failed_at    BIGINT NOT NULL,
    PRIMARY KEY (grade_id, key)
);
CREATE INDEX grade_failures_skill ON grade_failures (skill_id, failed_at);

-- Owner: internal/grades
CREATE TABLE graders (
    org_id             TEXT NOT NULL,
    skill_id           TEXT NOT NULL, -- '': of all skills without their own
    enabled            BOOLEAN NOT NULL,
    expectations       TEXT NOT NULL, -- JSON
    sample_per_day     BIGINT, -- NULL: all sessions
    max_micros_per_day BIGINT, -- NULL: no limit
    threshold          BIGINT NOT NULL, -- billionths
    updated_at         BIGINT NOT NULL,
    PRIMARY KEY (org_id, skill_id)
);

-- What graders have used of their budgets.

-- Owner: internal/grades
CREATE TABLE grader_days (
    org_id   TEXT NOT NULL,
    grader   TEXT NOT NULL, -- its skill, '' for that of all skills
    day      BIGINT NOT NULL, -- days since the epoch, UTC
    skill_id TEXT NOT NULL, -- of the sessions
    judged   BIGINT NOT NULL, -- sessions
    calls    BIGINT NOT NULL, -- requests to the model
    micros   BIGINT NOT NULL, -- of the calls whose price is known
    PRIMARY KEY (org_id, grader, day, skill_id)
);

-- Sessions that wait for a grader.

-- Owner: internal/grades
CREATE TABLE grade_queue (
    session_hash TEXT NOT NULL,
    skill_id     TEXT NOT NULL,
    org_id       TEXT NOT NULL,
    user_id      TEXT NOT NULL, -- whose session it is
    rank         TEXT NOT NULL, -- a hash: the order in which sessions are sampled
    attempts     BIGINT NOT NULL, -- of the judge
    queued_at    BIGINT NOT NULL,
    due_at       BIGINT NOT NULL,
    PRIMARY KEY (session_hash, skill_id)
);
CREATE INDEX grade_queue_due ON grade_queue (due_at, org_id);
CREATE INDEX grade_queue_skill ON grade_queue (org_id, skill_id, rank);
CREATE INDEX grade_queue_user ON grade_queue (user_id);
