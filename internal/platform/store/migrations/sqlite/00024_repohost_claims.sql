-- +goose Up
-- An account of the code host belongs to one organisation, whatever numbers
-- and spellings it is bound by. One that several had bound belongs to none
-- until the operator decides.
ALTER TABLE repohost_installations ADD COLUMN account_key TEXT NOT NULL DEFAULT ''; -- account_login in lower case
ALTER TABLE repohost_installations ADD COLUMN token TEXT; -- sealed; NULL: the server's own is used
UPDATE repohost_installations SET account_key = lower(account_login);
CREATE INDEX repohost_installations_account ON repohost_installations (account_key);

-- Owner: internal/repohost
CREATE TABLE repohost_claims (
    account_key TEXT PRIMARY KEY,
    org_id      TEXT REFERENCES organisations (id), -- NULL: contested
    claimed_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX repohost_claims_org ON repohost_claims (org_id);
INSERT INTO repohost_claims (account_key, org_id, claimed_at)
SELECT account_key, CASE WHEN COUNT(DISTINCT org_id) = 1 THEN MIN(org_id) END, MIN(created_at)
FROM repohost_installations GROUP BY account_key;
