package publication

import (
	"context"
	"encoding/json"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// columns are the columns that scan reads, of the table's alias a.
const columns = `a.id, a.org_id, a.connection_id, a.ref_kind, a.ref_name, a.commit_sha, a.cause, a.delivery_id, a.status,
	a.tries, a.version, a.message, a.findings, a.queued_at, a.attempted_at, a.published_at, a.write_back_status,
		a.write_back_detail,
	a.write_back_tries, a.status_sent, a.check_run_id, a.annotations_sent, a.reported, a.asked`

func scan(row store.Row) (a Attempt, err error) {
	var found string
	err = row.Scan(&a.ID, &a.OrgID, &a.ConnectionID, &a.RefKind, &a.RefName, &a.Commit,
		&a.Cause, &a.DeliveryID, &a.Status, &a.Tries,
		&a.Version, &a.Message, &found, store.Time(&a.QueuedAt), store.Time(&a.AttemptedAt), store.NullTime(&a.PublishedAt),
		&a.WriteBack, &a.WriteBackDetail, &a.WriteBackTries, &a.StatusSent, &a.CheckRunID, &a.AnnotationsSent,
		&a.Reported, &a.Asked)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal([]byte(found), &a.Findings)
}

// Upsert queues an attempt, or resets the existing one of the same ref and commit to
// queued. It returns the attempt's id. Counting asked up makes a write-back that is in
// flight discard its result.
func Upsert(ctx context.Context, tx *store.Tx, a Attempt) (string, error) {
	rows, err := tx.Query(ctx, `
		INSERT INTO repohost_attempts (id, org_id, connection_id, ref_kind, ref_name, commit_sha, cause,
			delivery_id, status, tries,
			version, message, findings, queued_at, attempted_at, published_at, write_back_status, write_back_detail,
			write_back_tries, status_sent, check_run_id, annotations_sent)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'queued', 0, NULL, '', '[]', $9, $9, NULL, 'disabled', '', 0, FALSE, NULL, 0)
		ON CONFLICT (connection_id, ref_kind, ref_name, commit_sha) DO UPDATE SET
			cause = excluded.cause, delivery_id = excluded.delivery_id, status = 'queued', tries = 0,
				version = NULL, message = '',
			findings = '[]', queued_at = excluded.queued_at, attempted_at = excluded.attempted_at, published_at = NULL,
			write_back_status = 'disabled', write_back_detail = '', write_back_tries = 0, status_sent = FALSE,
			check_run_id = NULL, annotations_sent = 0, reported = '', asked = repohost_attempts.asked + 1
		RETURNING id`,
		store.NewID(), a.OrgID, a.ConnectionID, a.RefKind, a.RefName, a.Commit, a.Cause, a.DeliveryID, store.Micros(store.Now()))
	return store.One(rows, err, "Attempt", store.Value[string])
}

// DeliveryWaitingFor returns the delivery of the existing attempt for the same ref and
// commit; "" if there is none.
func DeliveryWaitingFor(ctx context.Context, tx *store.Tx, a Attempt) (string, error) {
	rows, err := tx.Query(ctx, `
		SELECT COALESCE(delivery_id, '') FROM repohost_attempts
		WHERE connection_id = $1 AND ref_kind = $2 AND ref_name = $3 AND commit_sha = $4`,
		a.ConnectionID, a.RefKind, a.RefName, a.Commit)
	id, err := store.One(rows, err, "Attempt", store.Value[string])
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return id, err
}

// Update stores the outcome, and returns the delivery that is waiting for it, "" if none.
// That may have changed since the attempt was read, if another delivery of the same push
// came in.
func Update(ctx context.Context, tx *store.Tx, a Attempt) (deliveryID string, err error) {
	found, err := json.Marshal(append([]Finding{}, a.Findings...))
	if err != nil {
		return "", err
	}
	rows, err := tx.Query(ctx, `
		UPDATE repohost_attempts SET status = $2, tries = $3, version = $4, message = $5, findings = $6, attempted_at = $7,
			published_at = $8, write_back_status = $9
		WHERE id = $1 RETURNING COALESCE(delivery_id, '')`, a.ID, a.Status, a.Tries, a.Version, a.Message, string(found),
		store.Micros(a.AttemptedAt), store.NullMicros(a.PublishedAt), a.WriteBack)
	deliveryID, err = store.One(rows, err, "Attempt", store.Value[string])
	if fault.Is(err, fault.NotFound) {
		return "", nil // deleted with its connection in the meantime
	}
	return deliveryID, err
}

// CountTry counts a failed try of an attempt that stays queued.
func CountTry(ctx context.Context, q store.Querier, a Attempt, message string) error {
	_, err := q.Exec(ctx, `
		UPDATE repohost_attempts SET tries = $2, message = $3 WHERE id = $1 AND status = 'queued'`, a.ID, a.Tries, message)
	return err
}

// UpdateWriteBack stores the outcome of a write-back, unless another one was requested
// meanwhile (asked differs), which will find out for itself what is on the code host.
func UpdateWriteBack(ctx context.Context, q store.Querier, a Attempt) error {
	_, err := q.Exec(ctx, `
		UPDATE repohost_attempts SET write_back_status = $2, write_back_detail = $3, write_back_tries = $4, status_sent = $5,
			check_run_id = $6, annotations_sent = $7, reported = $8
		WHERE id = $1 AND asked = $9`, a.ID, a.WriteBack, a.WriteBackDetail, a.WriteBackTries, a.StatusSent, a.CheckRunID,
		a.AnnotationsSent, a.Reported, a.Asked)
	return err
}

// AskWriteBack requests another write-back of an attempt, with a new message.
func AskWriteBack(ctx context.Context, tx *store.Tx, a Attempt, message string) error {
	_, err := tx.Exec(ctx, `
		UPDATE repohost_attempts SET message = $2, write_back_status = 'pending', write_back_tries = 0, status_sent = FALSE,
			asked = asked + 1
		WHERE id = $1`, a.ID, message)
	return err
}

// SetMessage changes the message of an attempt that isn't reported to the code host.
func SetMessage(ctx context.Context, tx *store.Tx, a Attempt, message string) error {
	_, err := tx.Exec(ctx, `UPDATE repohost_attempts SET message = $2 WHERE id = $1`, a.ID, message)
	return err
}

// ByID returns an attempt of any organisation, for jobs.
func ByID(ctx context.Context, q store.Querier, id string) (Attempt, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM repohost_attempts a WHERE a.id = $1`, id)
	return store.One(rows, err, "Attempt", scan)
}

// OldestQueued returns the head of a connection's FIFO queue: versions appear in the
// order of the pushes.
func OldestQueued(ctx context.Context, q store.Querier, connectionID string) (Attempt, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM repohost_attempts a WHERE a.connection_id = $1 AND a.status = 'queued'
		ORDER BY a.queued_at, a.id LIMIT 1`, connectionID)
	return store.One(rows, err, "Attempt", scan)
}

// OfVersion returns the last attempt that published a version, preferring one that really
// did over one that found it unchanged.
func OfVersion(ctx context.Context, q store.Querier, orgID, entryID, version string) (Attempt, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM repohost_connections c JOIN repohost_attempts a ON a.connection_id = c.id
		WHERE c.org_id = $1 AND c.entry_id = $2 AND a.version = $3 AND a.status IN ('published', 'unchanged')
		ORDER BY a.status, a.attempted_at DESC LIMIT 1`, orgID, entryID, version)
	return store.One(rows, err, "Attempt", scan)
}

// OfCommit returns the finished attempts for a commit.
func OfCommit(ctx context.Context, q store.Querier, connectionID, commit string) ([]Attempt, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM repohost_attempts a
		WHERE a.connection_id = $1 AND a.commit_sha = $2 AND a.status <> 'queued' ORDER BY a.id`, connectionID, commit)
	return store.All(rows, err, scan)
}

// maxOfVersion is how many commits with the same content are updated after a decision.
const maxOfVersion = 20

// AllOfVersion returns the newest attempts whose commits have the content of a version.
func AllOfVersion(ctx context.Context, q store.Querier, orgID, entryID, version string) ([]Attempt, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM repohost_connections c JOIN repohost_attempts a ON a.connection_id = c.id
		WHERE c.org_id = $1 AND c.entry_id = $2 AND a.version = $3 AND a.status IN ('published', 'unchanged')
		ORDER BY a.attempted_at DESC LIMIT $4`, orgID, entryID, version, maxOfVersion)
	return store.All(rows, err, scan)
}

// LastBranchVersion returns the version of the last published commit of a branch; "" if
// there is none.
func LastBranchVersion(ctx context.Context, q store.Querier, connectionID string) (string, error) {
	rows, err := q.Query(ctx, `
		SELECT version FROM repohost_attempts
		WHERE connection_id = $1 AND ref_kind = 'branch' AND status IN ('published', 'unchanged') AND version IS NOT NULL
		ORDER BY attempted_at DESC, id DESC LIMIT 1`, connectionID)
	version, err := store.One(rows, err, "Attempt", store.Value[string])
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return version, err
}

// Settled returns the status of refs that need no new attempt: those published or queued,
// and those refused since the connection was last configured (since).
func Settled(ctx context.Context, q store.Querier, connectionID string, since time.Time) (map[At]Status, error) {
	rows, err := q.Query(ctx, `
		SELECT ref_kind, ref_name, commit_sha, status FROM repohost_attempts
		WHERE connection_id = $1 AND (status IN ('queued', 'published', 'unchanged') OR status = 'refused'
			AND attempted_at >= $2)`,
		connectionID, store.Micros(since))
	known := map[At]Status{}
	_, err = store.All(rows, err, func(row store.Row) (struct{}, error) {
		var at At
		var status Status
		err := row.Scan(&at.Kind, &at.Name, &at.Commit, &status)
		known[at] = status
		return struct{}{}, err
	})
	return known, err
}

// At is a ref at a commit.
type At struct {
	Ref
	Commit string
}

// Last returns the last finished attempt of each of the organisation's connections, by
// connection id.
func Last(ctx context.Context, q store.Querier, orgID string) (map[string]Attempt, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+` FROM repohost_connections c JOIN repohost_attempts a ON a.id = (
			SELECT l.id FROM repohost_attempts l WHERE l.connection_id = c.id AND l.status <> 'queued'
			ORDER BY l.attempted_at DESC, l.id DESC LIMIT 1)
		WHERE c.org_id = $1`, orgID)
	all, err := store.All(rows, err, scan)
	last := map[string]Attempt{}
	for _, a := range all {
		last[a.ConnectionID] = a
	}
	return last, err
}
