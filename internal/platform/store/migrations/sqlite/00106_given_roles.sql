-- +goose Up
-- Oldest binary: 31

-- The role that a person gave, which no sign-in lowers; null: a provider's groups gave it.
-- Members who never signed in with a provider got theirs from a person.
-- Owner: internal/auth
ALTER TABLE users ADD COLUMN given_role TEXT;
UPDATE users SET given_role = role WHERE id NOT IN (SELECT user_id FROM identities);

-- The role that a provider gave at its last sign-in; null: none. The last sign-in of all
-- gave the one that the member has.
-- Owner: internal/auth
ALTER TABLE identities ADD COLUMN role TEXT;
UPDATE identities SET role = (SELECT u.role FROM users u WHERE u.id = identities.user_id)
WHERE NOT EXISTS (SELECT 1 FROM identities i WHERE i.user_id = identities.user_id AND i.last_used_at > identities.last_used_at);
