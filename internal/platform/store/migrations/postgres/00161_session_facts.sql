-- +goose Up
-- Oldest binary: 31

-- Prompts of which no report says the id, beside the turns: agents whose transcripts are imported, too.
-- Owner: internal/sessions
ALTER TABLE agent_sessions ADD COLUMN unnamed_turns BIGINT NOT NULL DEFAULT 0;
-- What execution_facts say, which count while no call of a tool is known: how many of them say how many calls
-- there were, and their sum; likewise of errors.
-- Owner: internal/sessions
ALTER TABLE agent_sessions ADD COLUMN call_facts BIGINT NOT NULL DEFAULT 0;
-- Owner: internal/sessions
ALTER TABLE agent_sessions ADD COLUMN fact_calls BIGINT NOT NULL DEFAULT 0;
-- Owner: internal/sessions
ALTER TABLE agent_sessions ADD COLUMN error_facts BIGINT NOT NULL DEFAULT 0;
-- Owner: internal/sessions
ALTER TABLE agent_sessions ADD COLUMN fact_errors BIGINT NOT NULL DEFAULT 0;
CREATE INDEX agent_sessions_fact_errors ON agent_sessions (org_id, started_at, id) WHERE fact_errors > 0;
