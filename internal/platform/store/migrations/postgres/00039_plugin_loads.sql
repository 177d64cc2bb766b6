-- +goose Up
-- Owner: internal/telemetry
CREATE TABLE plugin_loads (
    id           TEXT PRIMARY KEY, -- user, and hash of session, plugin, version and day
    org_id       TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    session_hash TEXT NOT NULL, -- as in skill_observations
    plugin       TEXT NOT NULL,
    marketplace  TEXT NOT NULL, -- empty when unknown
    version      TEXT NOT NULL, -- empty when unknown
    first_at     BIGINT NOT NULL, -- of this day
    last_at      BIGINT NOT NULL,
    pending      BOOLEAN NOT NULL -- its offers are not derived yet
);
CREATE INDEX plugin_loads_plugin ON plugin_loads (org_id, plugin, id);
CREATE INDEX plugin_loads_session ON plugin_loads (session_hash);
CREATE INDEX plugin_loads_pending ON plugin_loads (org_id, id) WHERE pending;

-- Owner: internal/telemetry
CREATE TABLE plugin_skills (
    org_id   TEXT NOT NULL,
    plugin   TEXT NOT NULL,
    name     TEXT NOT NULL, -- of the skill, as agents report it: plugin:skill
    after_id TEXT, -- the last of plugin_loads that was offered it; NULL: all are
    PRIMARY KEY (org_id, plugin, name)
);
CREATE INDEX plugin_skills_pending ON plugin_skills (org_id) WHERE after_id IS NOT NULL;
