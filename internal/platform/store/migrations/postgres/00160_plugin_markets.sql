-- +goose Up
-- Oldest binary: 31

-- The marketplaces from which sessions loaded a plugin.
-- Owner: internal/telemetry
CREATE TABLE plugin_markets (
    org_id      TEXT NOT NULL,
    plugin      TEXT NOT NULL,
    marketplace TEXT NOT NULL,
    PRIMARY KEY (org_id, plugin, marketplace)
);
INSERT INTO plugin_markets SELECT DISTINCT org_id, plugin, marketplace FROM plugin_loads WHERE marketplace <> '';

-- The skill was merged into the registry's entry, since the plugin is the organisation's own.
-- Owner: internal/telemetry
ALTER TABLE plugin_skills ADD COLUMN merged BOOLEAN NOT NULL DEFAULT FALSE;
