package members

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const columns = `i.id, i.org_id, i.role, i.email, i.created_by, i.key_id, i.created_at, i.expires_at,
	i.accepted_at, i.accepted_by, i.revoked_at`

func targets(i *Invitation) []any {
	return []any{
		&i.ID, &i.OrgID, &i.Role, &i.Email, &i.CreatedBy, &i.KeyID, store.Time(&i.CreatedAt), store.Time(&i.ExpiresAt),
		store.NullTime(&i.AcceptedAt), &i.AcceptedBy, store.NullTime(&i.RevokedAt),
	}
}

func scan(row store.Row) (i Invitation, err error) {
	err = row.Scan(targets(&i)...)
	return i, err
}

func insertInvitation(ctx context.Context, tx *store.Tx, i Invitation, hash string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO invitations (id, org_id, role, email, hash, created_by, key_id, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		i.ID, i.OrgID, i.Role, i.Email, hash, i.CreatedBy, i.KeyID, store.Micros(i.CreatedAt), store.Micros(i.ExpiresAt))
	return err
}

func invitationByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Invitation, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM invitations i WHERE i.org_id = $1 AND i.id = $2`+lock, orgID, id)
	return store.One(rows, err, "Invitation", scan)
}

func offerByHash(ctx context.Context, q store.Querier, hash string) (Offer, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+`, o.name, COALESCE(u.name, '')
		FROM invitations i JOIN organisations o ON o.id = i.org_id LEFT JOIN users u ON u.id = i.created_by
		WHERE i.hash = $1 AND o.deleted_at IS NULL`, hash)
	return store.One(rows, err, "Invitation", func(row store.Row) (o Offer, err error) {
		err = row.Scan(append(targets(&o.Invitation), &o.OrgName, &o.Inviter)...)
		return o, err
	})
}

// take marks a pending invitation as accepted, and reports whether this call did. The condition
// makes it a compare-and-swap.
func take(ctx context.Context, tx *store.Tx, id string, now time.Time) (bool, error) {
	n, err := tx.Exec(ctx, `
		UPDATE invitations SET accepted_at = $2
		WHERE id = $1 AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > $2`, id, store.Micros(now))
	return n == 1, err
}

func setAcceptedBy(ctx context.Context, tx *store.Tx, id, userID string) error {
	_, err := tx.Exec(ctx, `UPDATE invitations SET accepted_by = $2 WHERE id = $1`, id, userID)
	return err
}

func markRevoked(ctx context.Context, tx *store.Tx, i Invitation, at time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE invitations SET revoked_at = $3 WHERE org_id = $1 AND id = $2`, i.OrgID, i.ID,
		store.Micros(at))
	return err
}

// Its sorts have names of their own: a page lists invitations beside members.
var listed = store.List[Invitation]{
	Columns: columns, From: `FROM invitations i WHERE i.org_id = $1`, Order: `i.id DESC`, Scan: scan,
	Sorts: store.Sorting{
		"invited_at": "i.created_at", "invited_email": "i.email", "invited_role": "i.role",
		"invitation_expires_at": "i.expires_at",
	},
}

func countPending(ctx context.Context, q store.Querier, orgID string, now time.Time) (int, error) {
	return store.Count(ctx, q, `
		FROM invitations WHERE org_id = $1 AND accepted_at IS NULL AND revoked_at IS NULL AND expires_at > $2`,
		orgID, store.Micros(now))
}

// isMember reports whether a member, not one who was removed, has the address.
func isMember(ctx context.Context, q store.Querier, orgID, email string) (bool, error) {
	n, err := store.Count(ctx, q, `FROM users WHERE org_id = $1 AND email = $2`, orgID, email)
	return n > 0, err
}

func deleteExpired(ctx context.Context, q store.Querier, orgID string, before time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM invitations WHERE org_id = $1 AND expires_at < $2`, orgID, store.Micros(before))
	return err
}

// A letter is the mail of an invitation.
type letter struct {
	invitationID string
	orgID        string
	createdAt    time.Time
	leasedUntil  *time.Time
	delivery.Progress
}

const letterColumns = `invitation_id, org_id, created_at, leased_until, status, attempts, response_status, detail, attempted_at,
	next_attempt_at`

func scanLetter(row store.Row) (l letter, err error) {
	err = row.Scan(&l.invitationID, &l.orgID, store.Time(&l.createdAt), store.NullTime(&l.leasedUntil), &l.Status, &l.Attempts,
		&l.ResponseStatus,
		&l.Detail, store.NullTime(&l.AttemptedAt), store.NullTime(&l.NextAttemptAt))
	return l, err
}

func insertLetter(ctx context.Context, tx *store.Tx, l letter) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO invitation_mails (invitation_id, org_id, created_at, status, attempts, detail)
			VALUES ($1, $2, $3, $4, 0, $5)`,
		l.invitationID, l.orgID, store.Micros(l.createdAt), l.Status, l.Detail)
	return err
}

func updateLetter(ctx context.Context, q store.Querier, l letter) error {
	_, err := q.Exec(ctx, `
		UPDATE invitation_mails SET leased_until = $3, status = $4, attempts = $5, response_status = $6, detail = $7,
			attempted_at = $8,
			next_attempt_at = $9
		WHERE org_id = $1 AND invitation_id = $2`,
		l.orgID, l.invitationID, store.NullMicros(l.leasedUntil), l.Status, l.Attempts, l.ResponseStatus, l.Detail,
		store.NullMicros(l.AttemptedAt), store.NullMicros(l.NextAttemptAt))
	return err
}

func letterOf(ctx context.Context, q store.Querier, orgID, invitationID, lock string) (letter, error) {
	rows, err := q.Query(ctx, `
		SELECT `+letterColumns+` FROM invitation_mails WHERE org_id = $1 AND invitation_id = $2`+lock, orgID, invitationID)
	return store.One(rows, err, "Mail", scanLetter)
}

func lettersOf(ctx context.Context, q store.Querier, orgID string, invitationIDs []string) ([]letter, error) {
	in, list := q.Dialect().In("$2", invitationIDs)
	rows, err := q.Query(ctx, `SELECT `+letterColumns+` FROM invitation_mails WHERE org_id = $1
		AND invitation_id`+in, orgID, list)
	return store.All(rows, err, scanLetter)
}

// countLetters counts an organisation's mails since a time, and those to one address.
// Mails that were never to be sent do not count.
func countLetters(ctx context.Context, q store.Querier, orgID, email string, since time.Time) (all, toAddress int, err error) {
	rows, err := q.Query(ctx, `
		SELECT COUNT(*), COUNT(*) FILTER (WHERE i.email = $2)
		FROM invitation_mails m JOIN invitations i ON i.id = m.invitation_id
		WHERE m.org_id = $1 AND m.created_at > $3 AND (m.status <> $4 OR m.attempts > 0)`, orgID, email, store.Micros(since),
		delivery.Failed)
	_, err = store.One(rows, err, "Mails", func(row store.Row) (struct{},
		error,
	) {
		return struct{}{}, row.Scan(&all, &toAddress)
	})
	return all, toAddress, err
}

// A post is what the mail of an invitation says.
type post struct {
	Offer
	hash    string
	inviter string // the address; "" if it was made on the server
}

func postOf(ctx context.Context, q store.Querier, orgID, id string) (post, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+`, o.name, COALESCE(u.email, ''), i.hash
		FROM invitations i JOIN organisations o ON o.id = i.org_id LEFT JOIN users u ON u.id = i.created_by
		WHERE i.org_id = $1 AND i.id = $2`, orgID, id)
	return store.One(rows, err, "Invitation", func(row store.Row) (p post, err error) {
		err = row.Scan(append(targets(&p.Invitation), &p.OrgName, &p.inviter, &p.hash)...)
		return p, err
	})
}
