package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/auth"
	"github.com/whetstone-dev/whetstone/internal/blob"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Watcher wants to know when the numbers of skills have changed.
type Watcher interface {
	// Changed is called in the transaction that changed them.
	Changed(ctx context.Context, tx *store.Tx, orgID string) error
}

// Service takes in telemetry.
type Service struct {
	DB      *store.DB
	Blobs   blob.Bucket
	Jobs    *jobs.Queue
	Skills  *skills.Service
	Auth    *auth.Service
	Watcher Watcher // nil: nobody watches
	// Retention is how long raw telemetry is kept.
	Retention time.Duration
	Quota     *quota.Service
	Log       *slog.Logger
}

// A Push is a body that was taken in.
type Push struct {
	ID         string // the client's
	Accepted   int
	Rejected   int
	ReceivedAt time.Time
}

// Result is what came of a push.
type Result struct {
	PushID       string
	Duplicate    bool
	Accepted     int
	Unattributed int
	Rejected     []rejection
}

// pushNamespace makes names for pushes that have none: the same body of the
// same user gets the same name, so that its repetition is noticed.
var pushNamespace = uuid.MustParse("7d0a8c5e-3f55-4f2e-9a57-0f1f6f2b6a11")

// Push takes in a body of canonical records. A push_id that is known is not
// applied again. Records that are not valid are named in the result; the
// others are taken.
func (s *Service) Push(ctx context.Context, c access.Caller, raw []byte) (result Result, err error) {
	defer fault.Wrap(&err, "push")
	var e envelope
	if err := decodeEnvelope(raw, &e); err != nil {
		return result, err
	}
	if e.Canonical == nil {
		return result, fault.Invalid("canonical", "canonical is required: an object of arrays of records")
	}
	if e.PushID = cleanPushID(e.PushID); e.PushID == "" {
		e.PushID = uuid.NewSHA1(uuid.NewSHA1(pushNamespace, []byte(c.UserID)), raw).String()
	}
	known := Result{PushID: e.PushID, Duplicate: true}
	if _, err := pushByID(ctx, s.DB, c.OrgID, e.PushID); !fault.Is(err, fault.NotFound) {
		return known, err
	}
	p, err := s.keepRaw(ctx, c, e.PushID, e.PushID, raw)
	if err != nil {
		return result, err
	}
	b := newReader(c, time.Now()).read(e)
	if duplicate, err := s.ingest(ctx, c, b, p); err != nil || duplicate {
		return known, err
	}
	return Result{PushID: e.PushID, Accepted: b.accepted, Unattributed: b.unattributed, Rejected: b.rejected}, nil
}

// cleanPushID is a client's UUID as it is stored, or "" for any other text.
func cleanPushID(text string) string {
	id, err := uuid.Parse(text)
	if err != nil {
		return ""
	}
	return id.String()
}

// rawPrefix begins the keys of all raw bodies.
const rawPrefix = "telemetry/"

// keepRaw stores the body as it came, so that nothing is lost whatever the
// reader makes of it, unless the organisation has no room for it.
func (s *Service) keepRaw(ctx context.Context, c access.Caller, pushID, name string, raw []byte) (*pushRow, error) {
	p := &pushRow{pushID: pushID, blobKey: rawPrefix + c.OrgID + "/" + c.UserID + "/" + name + ".gz", bytes: int64(len(raw))}
	if err := s.Quota.Room(ctx, c.OrgID, p.bytes); err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return p, s.Blobs.Put(ctx, p.blobKey, bytes.NewReader(packed.Bytes()), int64(packed.Len()))
}

// ingest stores a batch and counts it, all in one transaction. It reports
// whether the push was there already, brought by somebody at the same time.
func (s *Service) ingest(ctx context.Context, c access.Caller, b batch, p *pushRow) (duplicate bool, err error) {
	err = s.DB.InGroup(ctx, func(tx *store.Tx) error {
		fresh, err := insertPush(ctx, tx, c, b, p)
		if duplicate = !fresh; err != nil || duplicate {
			return err
		}
		if err := upsertPrompts(ctx, tx, c, b.prompts); err != nil {
			return err
		}
		if err := upsertRecords(ctx, tx, c, b.records); err != nil {
			return err
		}
		if err := s.observe(ctx, tx, c, b); err != nil {
			return err
		}
		return s.Quota.Add(ctx, tx, c.OrgID, quota.Telemetry, p.bytes)
	})
	return duplicate, err
}

// observe counts what a batch says, and tells who watches.
func (s *Service) observe(ctx context.Context, tx *store.Tx, c access.Caller, b batch) error {
	changed, err := s.Skills.Observe(ctx, tx, skills.Report{
		OrgID: c.OrgID, UserID: c.UserID, Observations: b.observations, Gradings: b.gradings,
	})
	if err != nil || len(changed) == 0 || s.Watcher == nil {
		return err
	}
	return s.Watcher.Changed(ctx, tx, c.OrgID)
}

// Standing is what a client wants to know of its own pushes.
type Standing struct {
	Pushes     int
	LastPushAt *time.Time
}

// Erase removes the caller's raw telemetry: prompts, records and bodies. The
// numbers that were made of it stay.
func (s *Service) Erase(ctx context.Context, c access.Caller) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := erase(ctx, tx, "user_id = $1", c.UserID); err != nil {
			return err
		}
		err := audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "telemetry.data.erase", Target: audit.Target{Kind: "user", ID: c.UserID, Name: c.Email},
		})
		if err != nil {
			return err
		}
		return s.Jobs.Enqueue(ctx, tx, eraseRaw{OrgID: c.OrgID, UserID: c.UserID, Before: time.Now()})
	})
}
