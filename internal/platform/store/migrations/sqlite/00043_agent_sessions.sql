-- +goose Up
-- Sessions of agents that people can open. Their model requests are in
-- cost_requests, their grades in skill_gradings. Their id is the pseudonym that the
-- tables of skills use: the hash of the user and of the agent's own session id.

-- Owner: internal/sessions
CREATE TABLE agent_sessions (
    id          TEXT PRIMARY KEY,
    org_id      TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    session_id  TEXT NOT NULL, -- the agent's
    agent       TEXT NOT NULL, -- '' when unknown
    started_at  INTEGER NOT NULL, -- of the first event
    last_at     INTEGER NOT NULL, -- end of the last event
    provisional INTEGER NOT NULL, -- these times are only those of gradings
    ended_at    INTEGER, -- as the agent reported it
    turns       INTEGER NOT NULL, -- these count the rows of agent_session_events
    tool_calls  INTEGER NOT NULL,
    tool_errors INTEGER NOT NULL,
    events      INTEGER NOT NULL,
    truncated   INTEGER NOT NULL, -- there were more events than are stored
    pass_rate   INTEGER, -- mean over its skills, in billionths
    basis       TEXT NOT NULL, -- of the grades, mixed of several; '' without one
    outcome     TEXT NOT NULL, -- pass or fail; '' without a grade
    reported_at INTEGER NOT NULL -- hour of the last report: the retention counts from it
) STRICT;
CREATE UNIQUE INDEX agent_sessions_session ON agent_sessions (org_id, session_id, user_id);
CREATE INDEX agent_sessions_started ON agent_sessions (org_id, started_at, id);
CREATE INDEX agent_sessions_agent ON agent_sessions (org_id, agent, started_at, id);
CREATE INDEX agent_sessions_user ON agent_sessions (user_id, started_at, id);
CREATE INDEX agent_sessions_outcome ON agent_sessions (org_id, outcome, started_at, id);
CREATE INDEX agent_sessions_graded ON agent_sessions (org_id, started_at, id) WHERE outcome <> '';
CREATE INDEX agent_sessions_errors ON agent_sessions (org_id, started_at, id) WHERE tool_errors > 0;
CREATE INDEX agent_sessions_reported ON agent_sessions (reported_at);

-- Clustered by session: the events of one are read together.
-- Owner: internal/sessions
CREATE TABLE agent_session_events (
    session_id  TEXT NOT NULL, -- agent_sessions.id
    id          TEXT NOT NULL, -- hash of the natural key
    kind        TEXT NOT NULL,
    at          INTEGER NOT NULL,
    name        TEXT NOT NULL, -- of the tool or the skill
    duration    INTEGER, -- microseconds
    ok          INTEGER,
    PRIMARY KEY (session_id, id)
) STRICT, WITHOUT ROWID;

-- Owner: internal/sessions
CREATE TABLE agent_session_skills (
    session_id TEXT NOT NULL, -- agent_sessions.id
    skill_id   TEXT NOT NULL,
    started_at INTEGER NOT NULL, -- of the session
    activated  INTEGER NOT NULL,
    offered    INTEGER NOT NULL,
    version_id TEXT, -- that was activated last
    pass_rate  INTEGER, -- in billionths
    basis      TEXT NOT NULL, -- of the grade; '' without one
    outcome    TEXT NOT NULL, -- pass or fail; '' without a grade
    PRIMARY KEY (session_id, skill_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_session_skills_started ON agent_session_skills (skill_id, started_at, session_id);
CREATE INDEX agent_session_skills_activated ON agent_session_skills (skill_id, started_at, session_id) WHERE activated;
CREATE INDEX agent_session_skills_graded ON agent_session_skills (skill_id, started_at, session_id) WHERE outcome <> '';
CREATE INDEX agent_session_skills_outcome ON agent_session_skills (skill_id, outcome, started_at, session_id) WHERE outcome <> '';
CREATE INDEX agent_session_skills_version ON agent_session_skills (version_id, started_at, session_id) WHERE version_id IS NOT NULL;
