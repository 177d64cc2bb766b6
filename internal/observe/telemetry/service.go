package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/plugins"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

// OnChanged is the hook of capabilities that depend on the numbers of skills.
// Alerts are evaluated soon after new data, instead of at the next scheduled time
// only.
type OnChanged interface {
	// Changed is called in the transaction that changes them.
	Changed(ctx context.Context, tx *store.Tx, orgID string) error
}

// Service ingests telemetry.
type Service struct {
	DB        *store.DB
	Blobs     blob.Bucket
	Jobs      *jobs.Queue
	Skills    *skills.Service
	Curate    *curate.Service
	Costs     *costs.Service
	Sessions  *sessions.Service
	Evidence  *content.Service
	Auth      *auth.Service
	OnChanged OnChanged // may be nil
	// Retention is how long prompts, records and raw bodies are kept.
	Retention time.Duration
	Quota     *quota.Service
	Log       *slog.Logger
}

// A Push is a body that was ingested. Clients ask for it after a timeout, to learn
// whether to retry.
type Push struct {
	ID         string // the client's
	Accepted   int
	Rejected   int
	ReceivedAt time.Time
}

// A Result is the outcome of a push.
type Result struct {
	PushID    string
	Duplicate bool
	Accepted  int
	// Records that count for no skill, since their producer hides its name.
	Unattributed int
	Rejected     []rejection
	Content      *Content // nil without transcripts
}

// pushNamespace is the UUIDv5 namespace of the idempotency keys of pushes without
// a push_id: the same body of the same user gets the same key.
var pushNamespace = uuid.MustParse("7d0a8c5e-3f55-4f2e-9a57-0f1f6f2b6a11")

// Push ingests a body of canonical records. It is idempotent: push_id is the
// idempotency key, and a known one is a duplicate that changes nothing. Invalid
// records are listed in the result; the others are accepted.
func (s *Service) Push(ctx context.Context, c access.Caller, raw []byte) (result Result, err error) {
	defer fault.Wrap(&err, "push")
	var e envelope
	if err := decodeEnvelope(raw, &e); err != nil {
		return result, err
	}
	if e.Canonical == nil {
		return result, fault.Invalid("canonical", "canonical is required: an object of arrays of records")
	}
	// A push_id that is no UUID is replaced rather than refused: old clients send
	// such ones, and the digest of the body makes their retries idempotent as well.
	if e.PushID = canonicalPushID(e.PushID); e.PushID == "" {
		e.PushID = uuid.NewSHA1(uuid.NewSHA1(pushNamespace, []byte(c.UserID)), raw).String()
	}
	duplicate := Result{PushID: e.PushID, Duplicate: true}
	// Checked before the body is stored and parsed: a retry is cheap. insertPush
	// decides between two that arrive at once.
	if _, err := pushByID(ctx, s.DB, c.OrgID, e.PushID); !fault.Is(err, fault.NotFound) {
		return duplicate, err
	}
	// What was said is taken out before anything is stored.
	raw, said, err := splitTranscripts(raw, e.Canonical)
	if err != nil {
		return result, err
	}
	p, err := s.storeRaw(ctx, c, e.PushID, e.PushID, raw)
	if err != nil {
		return result, err
	}
	r := newReader(c, time.Now())
	var became *Content // nil without transcripts
	if said != nil {
		if became, err = s.readTranscripts(ctx, c, r, said); err != nil {
			return result, err
		}
	}
	b := r.read(e)
	known, err := s.ingest(ctx, c, b, p, became)
	if err != nil || known {
		return duplicate, err
	}
	return Result{
		PushID: e.PushID, Accepted: b.accepted, Unattributed: b.unattributed, Rejected: b.rejected, Content: became,
	}, nil
}

// canonicalPushID is a client's UUID as it is stored, in lower case, or "" for any
// other text. Upper and lower case are one id, or a client that changes case would
// be counted twice.
func canonicalPushID(text string) string {
	id, err := uuid.Parse(text)
	if err != nil {
		return ""
	}
	return id.String()
}

// rawPrefix begins the blob keys of all raw bodies:
// telemetry/<organisation>/<user>/<push>.gz.
const rawPrefix = "telemetry/"

// storeRaw stores the compressed body, before it is parsed and committed, so that
// a bug in the reader loses no data. A body over the quota is refused. The blob
// of a push that is not committed is deleted by the sweep.
func (s *Service) storeRaw(
	ctx context.Context, c access.Caller, pushID, name string, raw []byte,
) (*pushRow, error) {
	key := rawPrefix + c.OrgID + "/" + c.UserID + "/" + name + ".gz"
	p := &pushRow{pushID: pushID, blobKey: key, bytes: int64(len(raw))}
	// Checked without a lock: concurrent pushes may exceed the quota by what they
	// hold.
	if err := s.Quota.Room(ctx, c.OrgID, p.bytes); err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	// The fastest level: the client waits, and bodies are rarely read again.
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

// ingest stores a batch and its observations, in one transaction unless it is
// large. It reports a duplicate if another request stored the same push meanwhile.
func (s *Service) ingest(
	ctx context.Context, c access.Caller, b batch, p *pushRow, became *Content,
) (duplicate bool, err error) {
	if b, err = s.ingestParts(ctx, c, b); err != nil {
		return false, err
	}
	// Pushes of several clients share one commit on SQLite, whose single writer
	// would otherwise fsync for each of them.
	err = s.DB.InGroup(ctx, func(tx *store.Tx) error {
		fresh, err := insertPush(ctx, tx, c, b, p)
		if duplicate = !fresh; err != nil || duplicate {
			return err
		}
		if err := s.ingestPart(ctx, tx, c, b); err != nil {
			return err
		}
		if err := s.Quota.Add(ctx, tx, c.OrgID, quota.Telemetry, p.bytes); err != nil || len(b.texts) == 0 {
			return err
		}
		return s.keep(ctx, tx, c, b.texts, became)
	})
	return duplicate, err
}

// observe deduplicates what several signals report, and hands the observations to skills, the model requests to costs, what
// happened when to sessions, and the loads of plugins to plugins, which derives
// more observations from them.
func (s *Service) observe(ctx context.Context, tx *store.Tx, c access.Caller, b batch) error {
	// Deduplication needs state of earlier pushes, so it cannot be part of reading
	// the body.
	activated, err := countActivations(ctx, tx, c, b.reports)
	if err != nil {
		return err
	}
	unmasked, err := countMasked(ctx, tx, c, b.clues)
	if err != nil {
		return err
	}
	b.observations = slices.Concat(b.observations, activated, unmasked)
	pending, err := s.plugins().Record(ctx, tx, c, b.loads, b.observations)
	if err != nil {
		return err
	}
	err = s.count(ctx, tx, skills.Report{
		OrgID: c.OrgID, UserID: c.UserID, DeviceID: c.DeviceID, Observations: b.observations, Gradings: b.gradings,
		Reloaded: plugins.Sessions(c.UserID, b.loads),
	}, b)
	// Most pushes load no plugin, and need no job.
	if err != nil || !pending {
		return err
	}
	return s.plugins().Derive(ctx, tx, c.OrgID)
}

// count adds a report to the numbers of skills, and the rest of a batch to costs
// and sessions, which deduplicate it, and calls the hook if they change any
// number. Costs come last, whose counters users share.
func (s *Service) count(ctx context.Context, tx *store.Tx, r skills.Report, b batch) error {
	// The order is that of locks: the user's own rows, then those of the
	// organisation.
	return s.Skills.Observe(ctx, tx, r, func(c skills.Changes) error {
		err := s.Sessions.Ingest(ctx, tx, sessions.Report{
			OrgID: r.OrgID, UserID: r.UserID, Sightings: b.sightings, Events: b.events, Skills: c,
		})
		if err != nil {
			return err
		}
		if len(c.SkillIDs) > 0 {
			if err := s.notify(ctx, tx, r.OrgID); err != nil {
				return err
			}
		}
		return s.Costs.Ingest(ctx, tx, costs.Report{
			OrgID: r.OrgID, UserID: r.UserID, Requests: b.requests, Marks: b.marks, Sessions: c.Sessions,
		})
	})
}

// notify calls the hook. It may enqueue a job, which commits with the change.
func (s *Service) notify(ctx context.Context, tx *store.Tx, orgID string) error {
	if s.OnChanged == nil {
		return nil
	}
	return s.OnChanged.Changed(ctx, tx, orgID)
}

// Count implements grades.Counter: it adds gradings to the numbers of skills.
func (s *Service) Count(ctx context.Context, tx *store.Tx, r skills.Report) error {
	return s.count(ctx, tx, r, batch{})
}

// plugins returns the part of the service that handles plugins. It has no state of
// its own, so making one for each call is cheap and needs no wiring.
func (s *Service) plugins() *plugins.Service {
	return &plugins.Service{DB: s.DB, Jobs: s.Jobs, Curate: s.Curate, Observe: s.Count}
}

// Erase deletes the caller's raw telemetry: prompts, records and sessions now, raw
// bodies by a job. The numbers derived from it stay. Blobs cannot be deleted in a
// transaction; the job deletes those from before this moment, and what the caller
// pushes afterwards stays.
func (s *Service) Erase(ctx context.Context, c access.Caller) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := deleteRaw(ctx, tx, "user_id = $1", c.UserID); err != nil {
			return err
		}
		if err := s.Sessions.Erase(ctx, tx, c.UserID); err != nil {
			return err
		}
		if err := s.Evidence.Erase(ctx, tx, c.UserID); err != nil {
			return err
		}
		err := audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "telemetry.data.erase", Target: audit.Target{Kind: "user", ID: c.UserID, Name: c.Email},
		})
		if err != nil {
			return err
		}
		if err := s.notify(ctx, tx, c.OrgID); err != nil {
			return err
		}
		return s.Jobs.Enqueue(ctx, tx, eraseRaw{OrgID: c.OrgID, UserID: c.UserID, Before: time.Now()}, jobs.For(c.OrgID))
	})
}
