-- +goose Up
-- A proposal can be applied: it has the whole SKILL.md that it proposes, and says
-- which words it was made for, and what proves it.
ALTER TABLE proposals ADD COLUMN target TEXT NOT NULL DEFAULT ''; -- description, body or both; '': as the type says
ALTER TABLE proposals ADD COLUMN source_id TEXT NOT NULL DEFAULT ''; -- the cloud source that has the words, outside the registry
ALTER TABLE proposals ADD COLUMN entry_id TEXT NOT NULL DEFAULT ''; -- of the registry; '' outside it
ALTER TABLE proposals ADD COLUMN base_version TEXT NOT NULL DEFAULT ''; -- that it was made for; '' outside the registry
ALTER TABLE proposals ADD COLUMN base_digest TEXT NOT NULL DEFAULT ''; -- SHA-256 of the SKILL.md that it was made for; '' if not known
ALTER TABLE proposals ADD COLUMN skill_md TEXT NOT NULL DEFAULT ''; -- what is applied; '' while there is no value
ALTER TABLE proposals ADD COLUMN diff TEXT NOT NULL DEFAULT ''; -- unified, of SKILL.md
ALTER TABLE proposals ADD COLUMN edits TEXT NOT NULL DEFAULT '[]'; -- JSON
ALTER TABLE proposals ADD COLUMN proved BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE proposals ADD COLUMN proof TEXT; -- JSON
ALTER TABLE proposals ADD COLUMN edited_by TEXT; -- the person who wrote the value; evidence does not change it then
ALTER TABLE proposals ADD COLUMN refreshed_at BIGINT; -- when its evidence or its words were last brought up to date

-- What became of proposals that were applied.

-- Owner: internal/proposals
CREATE TABLE proposal_outcomes (
    proposal_id   TEXT PRIMARY KEY REFERENCES proposals (id),
    org_id        TEXT NOT NULL REFERENCES organisations (id),
    kind          TEXT NOT NULL, -- version, pull_request or patch
    state         TEXT NOT NULL, -- queued or failed; candidate, blocked, published, rolled_back, withdrawn; open, merged, closed; given
    message       TEXT NOT NULL, -- why it is in this state
    entry_id      TEXT NOT NULL, -- of the version
    version       TEXT NOT NULL, -- '' before there is one
    version_id    TEXT NOT NULL,
    connection_id TEXT NOT NULL, -- of the pull request
    branch        TEXT NOT NULL,
    commit_sha    TEXT NOT NULL, -- the head of the branch
    number        BIGINT NOT NULL, -- of the pull request; 0 before there is one
    url           TEXT NOT NULL,
    applied_by    TEXT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL
);
CREATE INDEX proposal_outcomes_entry ON proposal_outcomes (entry_id) WHERE entry_id <> '';
CREATE INDEX proposal_outcomes_connection ON proposal_outcomes (connection_id, number) WHERE connection_id <> '';
