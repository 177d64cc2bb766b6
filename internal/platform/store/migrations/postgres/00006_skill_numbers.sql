-- +goose Up
-- Owner: internal/skills
CREATE TABLE skill_observations (
    id            TEXT PRIMARY KEY, -- hash of organisation, user, kind and natural id
    org_id        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    skill_id      TEXT NOT NULL REFERENCES skills (id),
    version_id    TEXT, -- the registry version it speaks of
    session_hash  TEXT NOT NULL, -- hash of user and session; empty when there is none
    prompt_hash   TEXT, -- names the prompt in telemetry_prompts
    version_hash  TEXT, -- what the producer called the version
    is_check      BOOLEAN NOT NULL, -- false: the skill was only offered
    triggered     BOOLEAN NOT NULL,
    confidence    BIGINT, -- billionths
    weight        BIGINT NOT NULL, -- how many of the kind a counter reported
    mode          TEXT,
    occurred_at   BIGINT NOT NULL,
    normalized_at BIGINT NOT NULL -- of the newest report; it wins
);
CREATE INDEX skill_observations_skill ON skill_observations (skill_id, occurred_at);

-- Owner: internal/skills
CREATE TABLE skill_aliases (
    alias          TEXT PRIMARY KEY, -- another name that a producer has for an observation
    observation_id TEXT NOT NULL
);

-- Owner: internal/skills
CREATE TABLE skill_gradings (
    id            TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    skill_id      TEXT NOT NULL REFERENCES skills (id),
    version_id    TEXT,
    session_hash  TEXT NOT NULL,
    pass_rate     BIGINT, -- billionths
    graded_at     BIGINT NOT NULL
);
CREATE INDEX skill_gradings_session ON skill_gradings (skill_id, session_hash);

-- A subject is a skill, or one registry version of it: both are counted alike.

-- Owner: internal/skills
CREATE TABLE skill_session_days (
    session_key TEXT NOT NULL, -- hash of subject and session
    day         BIGINT NOT NULL, -- days since the epoch, UTC
    seen        BIGINT NOT NULL,
    triggers    BIGINT NOT NULL,
    PRIMARY KEY (session_key, day)
);

-- Owner: internal/skills
CREATE TABLE skill_session_grades (
    session_key TEXT PRIMARY KEY,
    day         BIGINT NOT NULL,
    pass_rate   BIGINT NOT NULL -- billionths
);

-- Owner: internal/skills
CREATE TABLE skill_days (
    subject_id            TEXT NOT NULL,
    day                   BIGINT NOT NULL,
    sessions              BIGINT NOT NULL,
    trigger_sessions      BIGINT NOT NULL,
    last_sessions         BIGINT NOT NULL, -- sessions that were last seen on this day
    last_trigger_sessions BIGINT NOT NULL, -- sessions that last triggered on this day
    checks                BIGINT NOT NULL,
    triggers              BIGINT NOT NULL,
    confidence_sum        BIGINT NOT NULL, -- billionths
    confidence_count      BIGINT NOT NULL,
    graded_sessions       BIGINT NOT NULL,
    pass_rate_sum         BIGINT NOT NULL, -- billionths
    PRIMARY KEY (subject_id, day)
);

-- Owner: internal/skills
CREATE TABLE skill_totals (
    subject_id      TEXT PRIMARY KEY,
    unique_sessions BIGINT NOT NULL,
    graded_sessions BIGINT NOT NULL,
    first_seen_at   BIGINT,
    last_seen_at    BIGINT
);
