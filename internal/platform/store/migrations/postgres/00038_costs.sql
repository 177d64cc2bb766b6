-- +goose Up
-- Oldest binary: 31

-- What model requests cost. Money is in millionths of a dollar; no money is known
-- of a request whose model has no price.

-- Owner: internal/costs
CREATE TABLE cost_requests (
    id               TEXT PRIMARY KEY, -- hash of organisation, user, kind and natural id
    org_id           TEXT NOT NULL,
    user_id          TEXT NOT NULL,
    session_hash     TEXT NOT NULL, -- hash of user and session; empty when there is none
    turn_hash        TEXT, -- hash of user and prompt
    skill_name       TEXT NOT NULL, -- as the producer attributes it; empty for none
    inferred         BOOLEAN NOT NULL, -- true: without a name, the skill is that of the last mark
    skill_id         TEXT, -- the skill that it counts for
    version_id       TEXT, -- the version that the session used
    use_key          TEXT, -- the use of the skill that it belongs to
    occurred_at      BIGINT NOT NULL,
    model            TEXT NOT NULL,
    input            BIGINT NOT NULL, -- tokens
    output           BIGINT NOT NULL,
    cache_read       BIGINT NOT NULL,
    cache_write      BIGINT NOT NULL,
    cache_write_hour BIGINT NOT NULL, -- of cache_write
    reported_micros  BIGINT, -- what the producer says that it cost
    micros           BIGINT -- what it counts as
);
CREATE INDEX cost_requests_session ON cost_requests (session_hash, occurred_at) WHERE session_hash <> '';
CREATE INDEX cost_requests_use ON cost_requests (use_key) WHERE use_key IS NOT NULL;
CREATE INDEX cost_requests_skill ON cost_requests (skill_id, id) WHERE skill_id IS NOT NULL;
CREATE INDEX cost_requests_priced ON cost_requests (org_id, id) WHERE reported_micros IS NULL;

-- Owner: internal/costs
CREATE TABLE cost_marks (
    session_hash TEXT NOT NULL,
    marked_at    BIGINT NOT NULL,
    skill_name   TEXT NOT NULL, -- empty: no skill from here on
    PRIMARY KEY (session_hash, marked_at, skill_name)
);

-- The requests of a use of a skill, of a session with a skill, or of a session.

-- Owner: internal/costs
CREATE TABLE cost_groups (
    key          TEXT PRIMARY KEY, -- of a session: hash of subject and session
    kind         TEXT NOT NULL, -- use, session
    subject_id   TEXT NOT NULL, -- a skill, or the organisation
    version_id   TEXT,
    session_key  TEXT, -- of a use: the session with the skill
    session_hash TEXT NOT NULL,
    first_at     BIGINT, -- NULL: of a session with a skill
    requests     BIGINT NOT NULL,
    unpriced     BIGINT NOT NULL, -- requests
    micros       BIGINT NOT NULL,
    grade_day    BIGINT, -- of a session with a skill: the day of its grade
    pass_rate    BIGINT -- billionths
);
CREATE INDEX cost_groups_session ON cost_groups (session_key) WHERE session_key IS NOT NULL;

-- A subject is an organisation, a skill or a version of one.

-- Owner: internal/costs
CREATE TABLE cost_days (
    subject_id       TEXT NOT NULL,
    day              BIGINT NOT NULL, -- days since the epoch, UTC
    requests         BIGINT NOT NULL,
    reported         BIGINT NOT NULL, -- requests whose price the producer reported
    unpriced         BIGINT NOT NULL, -- requests whose price is unknown
    micros           BIGINT NOT NULL,
    input            BIGINT NOT NULL, -- tokens
    output           BIGINT NOT NULL,
    cache_read       BIGINT NOT NULL,
    cache_write      BIGINT NOT NULL,
    uses             BIGINT NOT NULL, -- that began on this day
    use_requests     BIGINT NOT NULL, -- of these uses
    sessions         BIGINT NOT NULL, -- of an organisation: that began on this day
    session_requests BIGINT NOT NULL, -- of these sessions
    graded_sessions  BIGINT NOT NULL, -- whose cost is known, on the day of the grade
    graded_micros    BIGINT NOT NULL, -- of these sessions
    pass_rate_sum    BIGINT NOT NULL, -- billionths; of these sessions
    PRIMARY KEY (subject_id, day)
);

-- A histogram of the costs of uses, on the day on which each began.

-- Owner: internal/costs
CREATE TABLE cost_buckets (
    subject_id TEXT NOT NULL,
    day        BIGINT NOT NULL,
    bucket     BIGINT NOT NULL, -- see bucketOf
    uses       BIGINT NOT NULL,
    micros     BIGINT NOT NULL,
    PRIMARY KEY (subject_id, day, bucket)
);

-- Owner: internal/costs
CREATE TABLE cost_models (
    org_id   TEXT NOT NULL,
    day      BIGINT NOT NULL,
    model    TEXT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (org_id, day, model)
);

-- Owner: internal/costs
CREATE TABLE cost_prices (
    org_id        TEXT PRIMARY KEY,
    models        TEXT NOT NULL, -- JSON; the organisation's own prices
    table_hash    TEXT NOT NULL, -- of all prices that its requests are priced by
    reprice_after TEXT -- the last request that has them; NULL: all have
);
