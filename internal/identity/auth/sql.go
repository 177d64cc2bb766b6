package auth

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/keyrules"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	orgColumns  = `id, name, plan, created_at`
	userColumns = `id, org_id, COALESCE(former_email, email), name, role, created_at, removed_at, kind = 'service'`
	keyColumns  = `id, org_id, user_id, name, prefix, permissions, created_at, last_used_at, expires_at, revoked_at,
		created_by_key, login, relay, entry_id, allowed_ips`
)

func scanOrg(row store.Row) (o Organisation, err error) {
	err = row.Scan(&o.ID, &o.Name, &o.Plan, store.Time(&o.CreatedAt))
	return o, err
}

func scanUser(row store.Row) (u User, err error) {
	err = row.Scan(&u.ID, &u.OrgID, &u.Email, &u.Name, &u.Role, store.Time(&u.CreatedAt), store.NullTime(&u.RemovedAt),
		&u.ServiceAccount)
	return u, err
}

func scanKey(row store.Row) (k Key, err error) {
	var permissions, allowed *string
	err = row.Scan(&k.ID, &k.OrgID, &k.UserID, &k.Name, &k.Prefix, &permissions, store.Time(&k.CreatedAt),
		store.NullTime(&k.LastUsedAt), store.NullTime(&k.ExpiresAt), store.NullTime(&k.RevokedAt), &k.CreatedByKey, &k.Login,
		&k.Relay, &k.EntryID, &allowed)
	if err != nil {
		return k, err
	}
	if permissions != nil {
		k.Permissions = splitPermissions(*permissions)
	}
	k.AllowedIPs, err = keyrules.Decode(allowed)
	return k, err
}

// insertNewOrg writes the audit log in the same transaction, like all changes here.
func insertNewOrg(ctx context.Context, tx *store.Tx, o Organisation) error {
	_, err := tx.Exec(ctx, `INSERT INTO organisations (id, name, plan, created_at) VALUES ($1, $2, $3, $4)`,
		o.ID, o.Name, o.Plan, store.Micros(o.CreatedAt))
	if err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: o.ID, Action: "auth.organisation.create", Target: o.target(), Detail: audit.Detail{"plan": o.Plan},
	})
}

// OrgNamed returns the organisation of that name, unless it was deleted.
func OrgNamed(ctx context.Context, q store.Querier, name string) (Organisation, error) {
	rows, err := q.Query(ctx, `SELECT `+orgColumns+` FROM organisations WHERE name = $1 AND deleted_at IS NULL`, name)
	return store.One(rows, err, "Organisation "+name, scanOrg)
}

func allOrgs(ctx context.Context, q store.Querier) ([]Organisation, error) {
	rows, err := q.Query(ctx, `SELECT `+orgColumns+` FROM organisations WHERE deleted_at IS NULL ORDER BY id`)
	return store.All(rows, err, scanOrg)
}

// CloseOrg closes the organisation of an owner, whose role it checks once more. All
// keys, sessions, tokens and invitations of it are refused from the commit on; call
// Forget after it. Other replicas may accept a key for keyCacheTTL.
func (s *Service) CloseOrg(ctx context.Context, tx *store.Tx, c access.Caller) error {
	crew, err := lockCrew(ctx, tx, c.OrgID, c.UserID, &c)
	if err != nil {
		return err
	}
	if crew.by.Role != access.Owner || crew.by.Narrowed() {
		return fault.New(fault.Denied, "Only an owner, with a key that has all permissions, can delete the organisation")
	}
	// Two owners may close it at the same time; the second is told that it's done.
	n, err := tx.Exec(ctx, `UPDATE organisations SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL`, c.OrgID,
		store.Micros(store.Now()))
	if err == nil && n == 0 {
		return fault.New(fault.Unauthorized, "This organisation was deleted")
	}
	return err
}

func updatePlan(ctx context.Context, q store.Querier, orgID string, plan access.Plan) error {
	_, err := q.Exec(ctx, `UPDATE organisations SET plan = $2 WHERE id = $1`, orgID, plan)
	return err
}

func insertUser(ctx context.Context, q store.Querier, u User) error {
	_, err := q.Exec(ctx, `
		INSERT INTO users (id, org_id, email, name, role, given_role, created_at) VALUES ($1, $2, $3, $4, $5, $5, $6)`,
		u.ID, u.OrgID, u.Email, u.Name, u.Role, store.Micros(u.CreatedAt))
	return err
}

// markAddressClaimed notes that nobody but the user says that the address is theirs. Providers
// don't vouch for it; see LinkableMember.
func markAddressClaimed(ctx context.Context, tx *store.Tx, u User) error {
	_, err := tx.Exec(ctx, `UPDATE users SET address_claimed = $3 WHERE org_id = $1 AND id = $2`, u.OrgID, u.ID, true)
	return err
}

func addressClaimed(ctx context.Context, q store.Querier, u User) (bool, error) {
	rows, err := q.Query(ctx, `SELECT address_claimed FROM users WHERE org_id = $1 AND id = $2`, u.OrgID, u.ID)
	return store.One(rows, err, "User", store.Value[bool])
}

// userByID finds a member who was not removed. In contrast to usersOfOrg.
func userByID(ctx context.Context, q store.Querier, orgID, id string) (User, error) {
	rows, err := q.Query(ctx, `
		SELECT `+userColumns+` FROM users WHERE org_id = $1 AND id = $2 AND removed_at IS NULL`, orgID, id)
	return store.One(rows, err, "User", scanUser)
}

// userByEmail never finds removed members: their address is replaced.
func userByEmail(ctx context.Context, q store.Querier, orgID, email string) (User, error) {
	rows, err := q.Query(ctx, `SELECT `+userColumns+` FROM users WHERE org_id = $1 AND email = $2`, orgID, email)
	return store.One(rows, err, "User "+email, scanUser)
}

// usersOfOrg returns the removed ones, too.
func usersOfOrg(ctx context.Context, q store.Querier, orgID string) ([]User, error) {
	rows, err := q.Query(ctx, `SELECT `+userColumns+` FROM users WHERE org_id = $1 ORDER BY id`, orgID)
	return store.All(rows, err, scanUser)
}

// ownersKeys returns the keys of an organisation's owners.
func ownersKeys(ctx context.Context, q store.Querier, orgID string) ([]Key, error) {
	rows, err := q.Query(ctx, `
		SELECT `+keyColumns+` FROM api_keys
		WHERE org_id = $1 AND user_id IN (SELECT id FROM users WHERE org_id = $1 AND role = $2 AND removed_at IS NULL)`,
		orgID, access.Owner)
	return store.All(rows, err, scanKey)
}

// lockedOwners returns the ids of an organisation's owners and locks their rows,
// so that they stay owners until the transaction ends. It is the lock that all changes which could
// take the last owner away have in common.
func lockedOwners(ctx context.Context, tx *store.Tx, orgID string) ([]string, error) {
	rows, err := tx.Query(ctx, `
		SELECT id FROM users WHERE org_id = $1 AND role = $2 AND removed_at IS NULL ORDER BY id`+tx.Dialect().ForUpdate(),
		orgID, access.Owner)
	return store.All(rows, err, store.Value[string])
}

// updateRole writes a role that a person gave. given_role is what an identity provider's lower role
// goes back to.
func updateRole(ctx context.Context, q store.Querier, u User) error {
	_, err := q.Exec(ctx, `UPDATE users SET role = $3, given_role = $3 WHERE org_id = $1 AND id = $2`, u.OrgID, u.ID, u.Role)
	return err
}

func insertKey(ctx context.Context, q store.Querier, k Key, hash string, deviceID *string) error {
	var permissions *string
	if k.Permissions != nil {
		joined := joinPermissions(k.Permissions)
		permissions = &joined
	}
	_, err := q.Exec(ctx, `
		INSERT INTO api_keys (id, org_id, user_id, name, prefix, hash, permissions, created_at, expires_at, created_by_key, login,
			relay, device_id, entry_id, allowed_ips)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		k.ID, k.OrgID, k.UserID, k.Name, k.Prefix, hash, permissions, store.Micros(k.CreatedAt), store.NullMicros(k.ExpiresAt),
		k.CreatedByKey, k.Login, k.Relay, deviceID, k.EntryID, k.AllowedIPs.Encode())
	return err
}

// keyByID takes the locking clause as a text, "" for none.
func keyByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Key, error) {
	rows, err := q.Query(ctx, `SELECT `+keyColumns+` FROM api_keys WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "Key", scanKey)
}

var listedKeys = store.List[Key]{
	Columns: keyColumns, From: `FROM api_keys WHERE org_id = $1 AND ($2 = '' OR user_id = $2)`, Order: `id DESC`, Scan: scanKey,
	Sorts: store.Sorting{
		"name": "lower(name)", "created_at": "created_at", "last_used_at": "last_used_at", "expires_at": "expires_at",
	},
}

// lockLineage locks and returns the key and, recursively, the keys that were
// created with it, or only the logins among them. Revoked keys are left out, but
// not the keys that were created with those. Ids grow with time (UUIDv7), so that
// all transactions lock in the same order, from parent to child.
func lockLineage(ctx context.Context, tx *store.Tx, orgID, id string, e cascade) ([]Key, error) {
	rows, err := tx.Query(ctx, `
		WITH RECURSIVE lineage (id) AS (
			SELECT id FROM api_keys WHERE org_id = $1 AND id = $2
			UNION
			SELECT k.id FROM api_keys k JOIN lineage l ON k.created_by_key = l.id WHERE k.org_id = $1 AND (k.login OR $3))
		SELECT `+keyColumns+` FROM api_keys
		WHERE org_id = $1 AND revoked_at IS NULL AND id IN (SELECT id FROM lineage)
		ORDER BY id`+tx.Dialect().ForUpdate(), orgID, id, bool(e))
	return store.All(rows, err, scanKey)
}

func keysMadeByKeys(ctx context.Context, q store.Querier, orgID string) ([]Key, error) {
	rows, err := q.Query(ctx, `
		SELECT `+keyColumns+` FROM api_keys WHERE org_id = $1 AND created_by_key IS NOT NULL ORDER BY id`, orgID)
	return store.All(rows, err, scanKey)
}

func markKeyRevoked(ctx context.Context, q store.Querier, id string, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE api_keys SET revoked_at = $2 WHERE id = $1`, id, store.Micros(at))
	return err
}

// revokeEarlierLogins revokes the keys of earlier logins of the same person with
// the same program on the same device, which has forgotten them. A device that is
// not identified revokes none: many clients send the same client id from every
// machine, so it would log the person out elsewhere. It does not cascade to keys
// that those have created, since a new login does not mean that the old key was
// stolen.
func revokeEarlierLogins(ctx context.Context, tx *store.Tx, n NewKey) error {
	if n.deviceID == nil {
		return nil
	}
	// RETURNING gives the keys to the audit log in the same statement.
	rows, err := tx.Query(ctx, `
		UPDATE api_keys SET revoked_at = $5
		WHERE org_id = $1 AND user_id = $2 AND login AND name = $3 AND device_id = $4 AND revoked_at IS NULL
		RETURNING `+keyColumns,
		n.OrgID, n.UserID, n.Name, n.deviceID, store.Micros(store.Now()))
	revoked, err := store.All(rows, err, scanKey)
	if err != nil {
		return err
	}
	for _, k := range revoked {
		if err := recordKey(ctx, tx, "auth.key.revoke", k); err != nil {
			return err
		}
	}
	return nil
}

// RevokeEntryKeys revokes those of the keys that are still active, in a transaction.
// The caller calls Forget after it: other replicas may use them for keyCacheTTL. Others of the ids
// are ignored: they may have expired and been deleted.
func (*Service) RevokeEntryKeys(ctx context.Context, tx *store.Tx, orgID string, ids []string) error {
	in, arg := tx.Dialect().In("$2", ids)
	rows, err := tx.Query(ctx, `
		SELECT `+keyColumns+` FROM api_keys
		WHERE org_id = $1 AND id `+in+` AND entry_id IS NOT NULL AND revoked_at IS NULL AND expires_at > $3
		ORDER BY id`+tx.Dialect().ForUpdate(), orgID, arg, store.Micros(store.Now()))
	keys, err := store.All(rows, err, scanKey)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := markKeyRevoked(ctx, tx, k.ID, store.Now()); err != nil {
			return err
		}
		if err := recordKey(ctx, tx, "auth.key.revoke", k); err != nil {
			return err
		}
	}
	return nil
}

// Sweep deletes expired logins and sessions. It runs on a schedule.
func (s *Service) Sweep(ctx context.Context) error {
	now := store.Now()
	if err := deleteExpiredSessions(ctx, s.DB, now); err != nil {
		return err
	}
	// There may be thousands of keys for one entry a day. No row refers to them: they open
	// no sessions and approve no logins.
	_, err := s.DB.Exec(ctx, `DELETE FROM api_keys WHERE entry_id IS NOT NULL AND expires_at < $1`, store.Micros(now.Add(-entryKeyKept)))
	if err != nil {
		return err
	}
	_, err = s.DB.Exec(ctx, `DELETE FROM device_codes WHERE expires_at < $1`, store.Micros(now.Add(-deviceLifetime)))
	return err
}

func touchKey(ctx context.Context, q store.Querier, id string, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE api_keys SET last_used_at = $2 WHERE id = $1`, id, store.Micros(at))
	return err
}

// holder is a key joined with its user and organisation. It is what authenticating a request needs,
// in one query.
type holder struct {
	caller    access.Caller
	keyName   string
	allowed   keyrules.AllowList
	expiresAt *time.Time
	revokedAt *time.Time
}

// A key of a removed member counts as revoked: one that was being made meanwhile is not.
const holderColumns = `k.id, k.permissions, k.expires_at, COALESCE(k.revoked_at, u.removed_at), k.relay,
	COALESCE(k.device_id, ''),
	COALESCE(k.entry_id, ''), k.name, k.allowed_ips, u.kind = 'service',
	u.id, u.email, u.name, u.role, o.id, o.name, o.plan`

// holderByHash is the hottest query of the service; its result is cached for keyCacheTTL.
func holderByHash(ctx context.Context, q store.Querier, hash string) (holder, error) {
	rows, err := q.Query(ctx, `
		SELECT `+holderColumns+`
		FROM api_keys k JOIN users u ON u.id = k.user_id JOIN organisations o ON o.id = k.org_id
		WHERE k.hash = $1 AND o.deleted_at IS NULL`, hash)
	return store.One(rows, err, "Key", func(row store.Row) (holder, error) { return scanHolderAnd(row) })
}

// scanHolderAnd scans a holder and the columns that follow it.
func scanHolderAnd(row store.Row, more ...any) (h holder, err error) {
	c := &h.caller
	var permissions, allowed *string
	err = row.Scan(append([]any{
		&c.KeyID, &permissions, store.NullTime(&h.expiresAt), store.NullTime(&h.revokedAt), &c.Relay, &c.DeviceID, &c.EntryID,
		&h.keyName, &allowed, &c.ServiceAccount,
		&c.UserID, &c.Email, &c.Name, &c.Role, &c.OrgID, &c.OrgName, &c.Plan,
	}, more...)...)
	if err != nil {
		return h, err
	}
	var names []access.Permission
	if permissions != nil {
		names = splitPermissions(*permissions)
	}
	c.Permissions = narrow(c.Role, names)
	h.allowed, err = keyrules.Decode(allowed)
	return h, err
}

// replaceSession starts a session with a new token, and ends the one of the token that
// the browser had.
func replaceSession(ctx context.Context, tx *store.Tx, s Session, replaces string) (token string, err error) {
	if _, err := deleteSessionByHash(ctx, tx, hash(replaces)); err != nil && !fault.Is(err, fault.NotFound) {
		return "", err
	}
	token = randomText(base62, keyLength)
	_, err = tx.Exec(ctx, `
		INSERT INTO sessions (id, org_id, user_id, key_id, identity_id, hash, browser, address, created_at, used_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		s.ID, s.OrgID, s.UserID, s.KeyID, s.IdentityID, hash(token), s.Browser, s.Address,
		store.Micros(s.CreatedAt), store.Micros(s.UsedAt), store.Micros(s.ExpiresAt))
	return token, err
}

func sessionByHash(ctx context.Context, q store.Querier, hash string) (heldSession, error) {
	rows, err := q.Query(ctx, `
		SELECT `+holderColumns+`, s.id, s.identity_id, s.used_at, s.expires_at
		FROM sessions s JOIN api_keys k ON k.id = s.key_id
			JOIN users u ON u.id = k.user_id JOIN organisations o ON o.id = k.org_id
		WHERE s.hash = $1 AND o.deleted_at IS NULL`, hash)
	return store.One(rows, err, "Session", func(row store.Row) (h heldSession, err error) {
		h.holder, err = scanHolderAnd(row, &h.id, &h.identityID, store.Time(&h.usedAt), store.Time(&h.sessionEndAt))
		return h, err
	})
}

func liveSessions(ctx context.Context, q store.Querier, orgID, userID string, now time.Time) ([]Session, error) {
	rows, err := q.Query(ctx, `
		SELECT s.id, s.org_id, s.user_id, s.key_id, k.name, s.browser, s.address, s.created_at, s.used_at, s.expires_at
		FROM sessions s JOIN api_keys k ON k.id = s.key_id
		WHERE s.org_id = $1 AND s.user_id = $2 AND s.expires_at > $3 AND s.used_at > $4
			AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $3)
		ORDER BY s.id DESC`, orgID, userID, store.Micros(now), store.Micros(now.Add(-SessionIdle)))
	return store.All(rows, err, func(row store.Row) (s Session, err error) {
		err = row.Scan(&s.ID, &s.OrgID, &s.UserID, &s.KeyID, &s.KeyName, &s.Browser, &s.Address,
			store.Time(&s.CreatedAt), store.Time(&s.UsedAt), store.Time(&s.ExpiresAt))
		return s, err
	})
}

func touchSession(ctx context.Context, q store.Querier, id string, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE sessions SET used_at = $2 WHERE id = $1`, id, store.Micros(at))
	return err
}

// EndSession ends a session of the caller; with a narrowed key, only one that was
// signed in with that key. An unknown session is fault.NotFound. A narrowed key must not be able to
// end the sessions of its holder's other keys.
func (s *Service) EndSession(ctx context.Context, c access.Caller, id string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		// A narrowed key only deletes its own sessions. RETURNING saves reading the session
		// for the audit log.
		rows, err := tx.Query(ctx, `
			DELETE FROM sessions WHERE org_id = $1 AND user_id = $2 AND id = $3 AND (key_id = $4 OR $5)
				RETURNING `+deletedSessionColumns,
			c.OrgID, c.UserID, id, c.KeyID, !c.Narrowed())
		ended, err := store.One(rows, err, "Session", scanDeletedSession)
		if err != nil {
			return err
		}
		return recordSession(ctx, tx, "auth.session.end", ended, nil)
	})
}

func deleteSessionByHash(ctx context.Context, tx *store.Tx, hash string) (Session, error) {
	rows, err := tx.Query(ctx, `DELETE FROM sessions WHERE hash = $1 RETURNING `+deletedSessionColumns, hash)
	return store.One(rows, err, "Session", scanDeletedSession)
}

// EndVouched ends the sessions that were signed in to with an identity: its person may not enter any more.
func EndVouched(ctx context.Context, tx *store.Tx, orgID, identityID string) (ended int64, err error) {
	return tx.Exec(ctx, `DELETE FROM sessions WHERE org_id = $1 AND identity_id = $2`, orgID, identityID)
}

const deletedSessionColumns = `id, org_id, user_id, key_id, browser`

func scanDeletedSession(row store.Row) (s Session, err error) {
	err = row.Scan(&s.ID, &s.OrgID, &s.UserID, &s.KeyID, &s.Browser)
	return s, err
}

// deleteExpiredSessions is housekeeping: Resume refuses them anyway.
func deleteExpiredSessions(ctx context.Context, q store.Querier, now time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM sessions WHERE expires_at < $1 OR used_at < $2`,
		store.Micros(now), store.Micros(now.Add(-SessionIdle)))
	return err
}

func pendingDevice(ctx context.Context, q store.Querier, userCode string, now time.Time) (DeviceRequest, error) {
	rows, err := q.Query(ctx, `
		SELECT user_code, client_id, created_at, expires_at FROM device_codes
		WHERE user_code = $1 AND status = $2 AND expires_at > $3`, userCode, DevicePending, store.Micros(now))
	return store.One(rows, err, "Login", func(row store.Row) (d DeviceRequest, err error) {
		err = row.Scan(&d.UserCode, &d.ClientID, store.Time(&d.CreatedAt), store.Time(&d.ExpiresAt))
		return d, err
	})
}

func insertDevice(ctx context.Context, q store.Querier, d deviceRow, at time.Time) error {
	_, err := q.Exec(ctx, `
		INSERT INTO device_codes (hash, user_code, client_id, device_id, status, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		d.hash, d.userCode, d.clientID, d.deviceID, d.status, store.Micros(at), store.Micros(d.expiresAt))
	return err
}

func deviceByHash(ctx context.Context, q store.Querier, hash, lock string) (deviceRow, error) {
	rows, err := q.Query(ctx, `
		SELECT hash, user_code, client_id, device_id, status, org_id, user_id, key_id, expires_at FROM device_codes
		WHERE hash = $1 AND (org_id IS NULL OR org_id IN (SELECT id FROM organisations WHERE deleted_at IS NULL))`+lock, hash)
	return store.One(rows, err, "Device code", func(row store.Row) (d deviceRow, err error) {
		err = row.Scan(&d.hash, &d.userCode, &d.clientID, &d.deviceID, &d.status, &d.orgID, &d.userID, &d.keyID,
			store.Time(&d.expiresAt))
		return d, err
	})
}

func setDeviceStatus(ctx context.Context, tx *store.Tx, hash string, status DeviceStatus) error {
	_, err := tx.Exec(ctx, `UPDATE device_codes SET status = $2 WHERE hash = $1`, hash, status)
	return err
}

// denyApprovedDevices denies the logins that a key approved and whose own key was
// not created yet. Otherwise the next poll would make a key although its approver's was revoked.
func denyApprovedDevices(ctx context.Context, tx *store.Tx, keyID string) error {
	_, err := tx.Exec(ctx, `UPDATE device_codes SET status = $2 WHERE key_id = $1 AND status = $3`,
		keyID, DeviceDenied, DeviceApproved)
	return err
}

// updatePendingDevice writes a decision and returns the client id of the login.
func updatePendingDevice(ctx context.Context, tx *store.Tx, d deviceDecision) (clientID string, err error) {
	rows, err := tx.Query(ctx, `
		UPDATE device_codes SET status = $2, org_id = $3, user_id = $4, key_id = $5
		WHERE user_code = $1 AND status = $6 AND expires_at > $7 RETURNING client_id`,
		d.userCode, d.status(), d.user.OrgID, d.user.ID, d.keyID, DevicePending, store.Micros(store.Now()))
	return store.One(rows, err, "Login", store.Value[string])
}

// insertSecret does nothing if there is a secret of that name: replacing one would make what was
// derived from it invalid.
func insertSecret(ctx context.Context, q store.Querier, name string, value []byte) error {
	_, err := q.Exec(ctx, `
		INSERT INTO service_secrets (name, value, created_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO NOTHING`, name, value, store.Micros(store.Now()))
	return err
}

func updateSecret(ctx context.Context, q store.Querier, name string, value []byte) error {
	_, err := q.Exec(ctx, `UPDATE service_secrets SET value = $2 WHERE name = $1`, name, value)
	return err
}

func secretByName(ctx context.Context, q store.Querier, name string) ([]byte, error) {
	rows, err := q.Query(ctx, `SELECT value FROM service_secrets WHERE name = $1`, name)
	return store.One(rows, err, "Secret", store.Value[[]byte])
}

type storedSecret struct {
	name  string
	value []byte
}

// allSecrets is in the order of the names, which is the lock order.
func allSecrets(ctx context.Context, q store.Querier, lock string) ([]storedSecret, error) {
	rows, err := q.Query(ctx, `SELECT name, value FROM service_secrets ORDER BY name`+lock)
	return store.All(rows, err, func(row store.Row) (s storedSecret, err error) {
		err = row.Scan(&s.name, &s.value)
		return s, err
	})
}
