-- +goose Up
-- The plugin marketplaces are also git repositories. Their commits are made once and
-- written down, so that all replicas serve the same ones.

-- Owner: internal/catalog
CREATE TABLE catalog_commits (
    shelf        TEXT NOT NULL, -- all, or the id of an organisation with /public or /private
    number       BIGINT NOT NULL,
    org_id       TEXT REFERENCES organisations (id) ON DELETE CASCADE, -- whose shelf it is; null: of all
    hash         TEXT NOT NULL, -- the commit's name
    parent       TEXT NOT NULL, -- empty for the first one
    tree         TEXT NOT NULL,
    market       TEXT NOT NULL, -- the format of the tree, and the names in it
    message      TEXT NOT NULL, -- empty when it is no longer served
    committed_at BIGINT NOT NULL,
    orgs         BIGINT NOT NULL, -- with changes: the revision of the shelf that it shows
    changes      BIGINT NOT NULL,
    PRIMARY KEY (shelf, number)
);
CREATE INDEX catalog_commits_org ON catalog_commits (org_id);

-- Owner: internal/catalog
CREATE TABLE catalog_commit_plugins (
    shelf       TEXT NOT NULL,
    name        TEXT NOT NULL,
    since       BIGINT NOT NULL, -- the first commit that has the plugin like this
    until       BIGINT, -- the first one that has not; null: the newest one has it
    org_id      TEXT REFERENCES organisations (id) ON DELETE CASCADE, -- whose shelf it is; null: of all
    owner_id    TEXT NOT NULL, -- the organisation of the entry
    entry_id    TEXT NOT NULL,
    version_id  TEXT NOT NULL,
    version     TEXT NOT NULL, -- of the plugin
    description TEXT NOT NULL,
    zip         TEXT NOT NULL, -- SHA-256 of the plugin as a zip
    tree        TEXT NOT NULL, -- the git tree of the skill
    PRIMARY KEY (shelf, name, since)
);
CREATE INDEX catalog_commit_plugins_org ON catalog_commit_plugins (org_id);

-- Versions get their git trees.
DELETE FROM registry_tree_backfill;
INSERT INTO registry_tree_backfill (after_id) SELECT '' WHERE EXISTS (SELECT 1 FROM registry_versions);
