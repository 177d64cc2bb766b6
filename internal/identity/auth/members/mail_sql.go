package members

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

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
