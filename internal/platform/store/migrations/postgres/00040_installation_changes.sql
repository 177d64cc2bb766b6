-- +goose Up
-- What a user had installed at a time tells which version an observation of that
-- time is about. What is installed now is known since it was last reported; which
-- device has what is recorded from the next change on.

-- Owner: internal/installations
CREATE TABLE installation_changes (
    user_id      TEXT NOT NULL REFERENCES users (id),
    entry_id     TEXT NOT NULL REFERENCES registry_entries (id),
    device_hash  TEXT NOT NULL, -- empty: all devices of the user taken together
    since        BIGINT NOT NULL,
    content_hash TEXT NOT NULL, -- from then on; empty: nothing, or different versions
    PRIMARY KEY (user_id, entry_id, device_hash, since)
);
CREATE INDEX installation_changes_entry ON installation_changes (entry_id);
INSERT INTO installation_changes (user_id, entry_id, device_hash, since, content_hash)
SELECT user_id, entry_id, '', MAX(last_seen_at), CASE COUNT(DISTINCT content_hash) WHEN 1 THEN MAX(content_hash) ELSE '' END
FROM registry_installations WHERE content_hash <> '' GROUP BY user_id, entry_id;

ALTER TABLE skill_observations ADD COLUMN device_hash TEXT; -- whose key reported it; NULL when unknown
