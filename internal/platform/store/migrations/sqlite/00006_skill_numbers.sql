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
    is_check      INTEGER NOT NULL, -- false: the skill was only offered
    triggered     INTEGER NOT NULL,
    confidence    INTEGER, -- billionths
    weight        INTEGER NOT NULL, -- how many of the kind a counter reported
    mode          TEXT,
    occurred_at   INTEGER NOT NULL,
    normalized_at INTEGER NOT NULL -- of the newest report; it wins
) STRICT;
CREATE INDEX skill_observations_skill ON skill_observations (skill_id, occurred_at);

-- Owner: internal/skills
CREATE TABLE skill_aliases (
    alias          TEXT PRIMARY KEY, -- another name that a producer has for an observation
    observation_id TEXT NOT NULL
) STRICT;

-- Owner: internal/skills
CREATE TABLE skill_gradings (
    id            TEXT PRIMARY KEY,
    org_id        TEXT NOT NULL,
    user_id       TEXT NOT NULL,
    skill_id      TEXT NOT NULL REFERENCES skills (id),
    version_id    TEXT,
    session_hash  TEXT NOT NULL,
    pass_rate     INTEGER, -- billionths
    graded_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX skill_gradings_session ON skill_gradings (skill_id, session_hash);

-- A subject is a skill, or one registry version of it: both are counted alike.

-- Owner: internal/skills
CREATE TABLE skill_session_days (
    session_key TEXT NOT NULL, -- hash of subject and session
    day         INTEGER NOT NULL, -- days since the epoch, UTC
    seen        INTEGER NOT NULL,
    triggers    INTEGER NOT NULL,
    PRIMARY KEY (session_key, day)
) STRICT;

-- Owner: internal/skills
CREATE TABLE skill_session_grades (
    session_key TEXT PRIMARY KEY,
    day         INTEGER NOT NULL,
    pass_rate   INTEGER NOT NULL -- billionths
) STRICT;

-- Owner: internal/skills
CREATE TABLE skill_days (
    subject_id            TEXT NOT NULL,
    day                   INTEGER NOT NULL,
    sessions              INTEGER NOT NULL,
    trigger_sessions      INTEGER NOT NULL,
    last_sessions         INTEGER NOT NULL, -- sessions that were last seen on this day
    last_trigger_sessions INTEGER NOT NULL, -- sessions that last triggered on this day
    checks                INTEGER NOT NULL,
    triggers              INTEGER NOT NULL,
    confidence_sum        INTEGER NOT NULL, -- billionths
    confidence_count      INTEGER NOT NULL,
    graded_sessions       INTEGER NOT NULL,
    pass_rate_sum         INTEGER NOT NULL, -- billionths
    PRIMARY KEY (subject_id, day)
) STRICT;

-- Owner: internal/skills
CREATE TABLE skill_totals (
    subject_id      TEXT PRIMARY KEY,
    unique_sessions INTEGER NOT NULL,
    graded_sessions INTEGER NOT NULL,
    first_seen_at   INTEGER,
    last_seen_at    INTEGER
) STRICT;
