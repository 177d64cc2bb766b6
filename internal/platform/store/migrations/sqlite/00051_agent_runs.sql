-- +goose Up
-- The agent of a run and what it may cost. It is beside eval_runs like
-- eval_run_costs. Runs without an agent and without a budget have no row.

-- Owner: internal/runs
CREATE TABLE eval_run_terms (
    run_id       TEXT PRIMARY KEY REFERENCES eval_runs (id) ON DELETE CASCADE,
    terms        TEXT NOT NULL, -- JSON: agent, max_micros, estimate_micros
    spent_micros INTEGER NOT NULL -- by all requests, those of interrupted trials, too
) STRICT;

-- What the trials of an agent cost in each run: the next run is estimated by it.
-- Owner: internal/runs
CREATE TABLE eval_agent_costs (
    org_id TEXT NOT NULL REFERENCES organisations (id),
    agent  TEXT NOT NULL,
    model  TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES eval_runs (id) ON DELETE CASCADE,
    trials INTEGER NOT NULL,
    micros INTEGER NOT NULL,
    PRIMARY KEY (org_id, agent, model, run_id)
) STRICT;
CREATE INDEX eval_agent_costs_run ON eval_agent_costs (run_id);
