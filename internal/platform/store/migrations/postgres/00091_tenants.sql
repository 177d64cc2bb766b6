-- +goose Up
-- Oldest binary: 31

-- When time alone may change a verdict, so that no sweep evaluates all organisations.
-- 0 is at once, also for rules of a binary that does not know the column.
-- Owner: internal/alerts
ALTER TABLE alert_rules ADD COLUMN due_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX alert_rules_due ON alert_rules (due_at, org_id) WHERE enabled;

-- When a connection is compared with its repository next.
-- Owner: internal/repohost
ALTER TABLE repohost_connections ADD COLUMN reconcile_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX repohost_connections_due ON repohost_connections (reconcile_at, id);

-- What the other scheduled jobs look for, of all organisations.
-- Owner: internal/sources
CREATE INDEX cloud_sources_suggested ON cloud_sources (suggested_at, id) WHERE skill_id IS NOT NULL;
-- Owner: internal/proposals/apply
CREATE INDEX proposal_outcomes_state ON proposal_outcomes (state, updated_at);
-- Owner: internal/improve/unattended
CREATE INDEX improve_policies_night ON improve_policies (night, org_id) WHERE mode <> 'off';
CREATE INDEX improve_policies_run ON improve_policies (org_id) WHERE run_id IS NOT NULL;
