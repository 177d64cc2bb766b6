package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Delivery is a message on its way to one receiver.
type Delivery struct {
	ID        string
	OrgID     string
	SourceID  string  // what sends it, e.g. an alert
	EventID   *string // what it is about; nil for a test
	CreatedAt time.Time
	Progress
}

// New returns a pending delivery.
func New(orgID, sourceID string, eventID *string) Delivery {
	return Delivery{
		ID: store.NewID(), OrgID: orgID, SourceID: sourceID, EventID: eventID, CreatedAt: store.Now(),
		Progress: Progress{Status: Pending},
	}
}

// Due is the time of the next attempt.
func (d Delivery) Due() time.Time {
	if d.NextAttemptAt != nil {
		return *d.NextAttemptAt
	}
	return d.CreatedAt
}

// A Table has the deliveries of one capability. D embeds Delivery.
type Table[D any] struct {
	Name   string // e.g. "alert_deliveries"
	Source string // the column of SourceID, e.g. "alert_id"
	// Own are the columns that only this table has, e.g. "channel, recipient_id".
	Own string
	// Fields returns the Delivery in d and pointers to the values of Own.
	Fields func(d *D) (*Delivery, []any)
	// Job is the job that sends the delivery of an id.
	Job func(id string) jobs.Args
}

func (t Table[D]) columns() string {
	return `id, org_id, ` + t.Source + `, event_id, status, attempts, response_status, detail, created_at, attempted_at,
		next_attempt_at, ` + t.Own
}

func (t Table[D]) scan(row store.Row) (d D, err error) {
	base, own := t.Fields(&d)
	err = row.Scan(append([]any{
		&base.ID, &base.OrgID, &base.SourceID, &base.EventID, &base.Status, &base.Attempts, &base.ResponseStatus, &base.Detail,
		store.Time(&base.CreatedAt), store.NullTime(&base.AttemptedAt), store.NullTime(&base.NextAttemptAt),
	}, own...)...)
	return d, err
}

// Insert writes a delivery without a job.
func (t Table[D]) Insert(ctx context.Context, q store.Querier, d D) error {
	base, own := t.Fields(&d)
	args := append([]any{
		base.ID, base.OrgID, base.SourceID, base.EventID, base.Status, base.Attempts, base.ResponseStatus, base.Detail,
		store.Micros(base.CreatedAt), store.NullMicros(base.AttemptedAt), store.NullMicros(base.NextAttemptAt),
	}, own...)
	places := make([]string, len(args))
	for i := range args {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	_, err := q.Exec(ctx, `INSERT INTO `+t.Name+` (`+t.columns()+`) VALUES (`+strings.Join(places, ", ")+`)`, args...)
	return err
}

// Enqueue writes a delivery and the job that sends it, in the transaction that causes it.
func (t Table[D]) Enqueue(ctx context.Context, tx *store.Tx, q *jobs.Queue, d D) error {
	if err := t.Insert(ctx, tx, d); err != nil {
		return err
	}
	base, _ := t.Fields(&d)
	return t.EnqueueJob(ctx, tx, q, base.ID, base.OrgID)
}

// EnqueueJob enqueues the job of a delivery that has none.
func (t Table[D]) EnqueueJob(ctx context.Context, tx *store.Tx, q *jobs.Queue, id, orgID string) error {
	return q.Enqueue(ctx, tx, t.Job(id), jobs.Attempts(MaxRuns), jobs.For(orgID))
}

func (t Table[D]) update(ctx context.Context, q store.Querier, d *Delivery) error {
	_, err := q.Exec(ctx, `
		UPDATE `+t.Name+` SET status = $2, attempts = $3, response_status = $4, detail = $5, attempted_at = $6, next_attempt_at = $7
		WHERE id = $1`, d.ID, d.Status, d.Attempts, d.ResponseStatus, d.Detail,
		store.NullMicros(d.AttemptedAt), store.NullMicros(d.NextAttemptAt))
	return err
}

// ByID returns a delivery of an organisation that is not deleted.
func (t Table[D]) ByID(ctx context.Context, q store.Querier, id string) (D, error) {
	rows, err := q.Query(ctx, `
		SELECT `+t.columns()+` FROM `+t.Name+`
		WHERE id = $1 AND org_id IN (SELECT id FROM organisations WHERE deleted_at IS NULL)`, id)
	return store.One(rows, err, "Delivery", t.scan)
}

// First returns the oldest delivery for which a condition holds.
func (t Table[D]) First(ctx context.Context, q store.Querier, condition string, args ...any) (D, error) {
	rows, err := q.Query(ctx, `SELECT `+t.columns()+` FROM `+t.Name+` WHERE `+condition+` ORDER BY id LIMIT 1`, args...)
	return store.One(rows, err, "Delivery", t.scan)
}

// Page returns a page of what a source has sent, newest first, and how many there are.
func (t Table[D]) Page(ctx context.Context, q store.Querier, sourceID string, limit, offset int) ([]D, int, error) {
	return store.List[D]{
		Columns: t.columns(), From: `FROM ` + t.Name + ` WHERE ` + t.Source + ` = $1`, Order: `id DESC`, Scan: t.scan,
	}.Page(ctx, q, store.Page{Limit: limit, Offset: offset}, sourceID)
}

// Waiting finds deliveries that were not attempted for an hour.
func (t Table[D]) Waiting(wrong string) invariants.Rule {
	return invariants.Rule{
		Broken: `SELECT COUNT(*), COALESCE(MIN(id), '') FROM ` + t.Name + ` WHERE status = 'pending' AND created_at < $1`,
		Args:   []any{store.Micros(store.Now().Add(-time.Hour))},
		Wrong:  wrong, Do: "is there a process with --roles worker?",
	}
}

// ErrDeleted says that what sends a delivery was deleted. The delivery stays as it is.
var ErrDeleted = errors.New("what sends the delivery was deleted")

// An Outbox sends the deliveries of a table.
type Outbox[D any] struct {
	Table[D]
	DB *store.DB
	// Prepare returns the next attempt of an open delivery, or ErrDeleted.
	Prepare func(ctx context.Context, d D) (Attempt, error)
	Backoff Backoff // nil is DefaultBackoff
}

// An Attempt is how a delivery is sent now.
type Attempt struct {
	Refusal string        // why it will not be sent, or ""
	Wait    time.Duration // until it may be sent
	Send    func(ctx context.Context) (notify.Result, error)
	// Gone is called in the transaction that records that the target is gone for good (410).
	Gone func(ctx context.Context, tx *store.Tx) error
}

// Deliver makes one attempt to send a delivery when it is due. It is idempotent for
// deliveries that have ended. A failure that may pass is retried with backoff. A crash
// between sending and recording repeats the attempt: receivers deduplicate by the
// message's id.
func (o Outbox[D]) Deliver(ctx context.Context, id string) error {
	d, err := o.ByID(ctx, o.DB, id)
	base, _ := o.Fields(&d)
	if fault.Is(err, fault.NotFound) || err == nil && !base.Open() {
		return nil
	}
	if err != nil {
		return err
	}
	a, err := o.Prepare(ctx, d)
	switch {
	case errors.Is(err, ErrDeleted):
		return nil
	case err != nil:
		return err
	case a.Refusal != "":
		base.Progress = base.Abandoned(a.Refusal)
		return o.update(ctx, o.DB, base)
	case a.Wait > 0:
		return jobs.Snooze(a.Wait)
	}
	result, err := a.Send(ctx)
	if err != nil {
		return err
	}
	if result.Throttled { // rate limited before anything was sent: not an attempt
		return jobs.Snooze(result.RetryAfter)
	}
	base.Progress = base.After(result, o.backoff())
	err = o.DB.InTx(ctx, func(tx *store.Tx) error {
		if result.Outcome == notify.Gone {
			if err := a.Gone(ctx, tx); err != nil {
				return err
			}
		}
		return o.update(ctx, tx, base)
	})
	if err != nil {
		return err
	}
	return base.Again()
}

func (o Outbox[D]) backoff() Backoff {
	if o.Backoff != nil {
		return o.Backoff
	}
	return DefaultBackoff()
}
