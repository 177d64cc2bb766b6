-- +goose Up
-- Oldest binary: 31

-- Which connections' CODEOWNERS files count, and who chose what they publish: ownership of
-- an entry must not follow from a repository that any member chooses.

-- Owner: internal/repohost
ALTER TABLE repohost_connections ADD COLUMN codeowners INTEGER NOT NULL DEFAULT 0; -- the file of the repository names the owners
ALTER TABLE repohost_connections ADD COLUMN chosen_by TEXT; -- who last changed repository, branch, path or tag pattern; NULL: created_by
ALTER TABLE repohost_connections ADD COLUMN chosen_at INTEGER NOT NULL DEFAULT 0; -- files that were read before do not count
UPDATE repohost_connections SET codeowners = 1 WHERE EXISTS (
    SELECT 1 FROM users u WHERE u.id = created_by AND u.org_id = repohost_connections.org_id AND u.removed_at IS NULL AND (
        u.role IN ('admin', 'owner')
        OR EXISTS (SELECT 1 FROM entry_owners o WHERE o.entry_id = repohost_connections.entry_id AND o.user_id = u.id)
        OR EXISTS (SELECT 1 FROM entry_owners o JOIN team_members m ON m.team_id = o.team_id
            WHERE o.entry_id = repohost_connections.entry_id AND m.user_id = u.id)));

-- Owner: internal/registry
ALTER TABLE registry_versions ADD COLUMN chosen_by TEXT; -- who chose the branch or tags that it came from, beside pushed_by
