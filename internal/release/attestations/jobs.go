package attestations

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// Register makes the queue run the jobs.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ backfill) error { return s.backfill(ctx) }, jobs.Timeout(time.Hour))
	jobs.Handle(s.Jobs, func(ctx context.Context, _ resign) error { return s.resign(ctx) }, jobs.Timeout(time.Hour))
	// Once it is done, there is no cursor, and it ends at once.
	s.Jobs.Every(24*time.Hour, backfill{}, jobs.RunOnStart())
	s.Jobs.Every(5*time.Minute, resign{}, jobs.RunOnStart())
}

// backfill is the job that signs versions from before migration 68, and the decisions
// of their gates.
type backfill struct{}

// Kind names the job.
func (backfill) Kind() string { return "attestations.backfill" }

// resign is the job that signs again what a revoked key has signed.
type resign struct{}

// Kind names the job.
func (resign) Kind() string { return "attestations.resign" }

// chunk is how many statements one transaction of a job signs. SQLite has one writer: others
// wait for as long as a chunk takes to sign.
const chunk = 50

// backfill may be interrupted: the table attestation_backfill has its cursor. Statements that
// exist are left alone (see insertAttestation), so repeating a chunk is harmless.
func (s *Service) backfill(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "backfill")
	waits, err := treehash.Lacks(ctx, s.DB)
	if err != nil {
		return err
	}
	// A provenance is signed only once, and would lack the hashes of the files for good.
	if waits {
		return jobs.Snooze(time.Minute)
	}
	for {
		after, done, err := lastSeen(ctx, s.DB)
		if err != nil || done {
			return err
		}
		ids, err := registry.VersionIDsAfter(ctx, s.DB, after, chunk)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return setDone(ctx, s.DB)
		}
		// Gates.Get takes no transaction, so they are read before it.
		decided, err := s.decided(ctx, ids)
		if err != nil {
			return err
		}
		err = s.DB.InTx(ctx, func(tx *store.Tx) error {
			if err := s.signVersions(ctx, tx, ids); err != nil {
				return err
			}
			for _, g := range decided {
				if err := s.GateChanged(ctx, tx, g); err != nil {
					return err
				}
			}
			return setSeen(ctx, tx, ids[len(ids)-1])
		})
		if err != nil {
			return err
		}
	}
}

// decided returns the decided gates of versions, an overridden one also as it was
// before.
func (s *Service) decided(ctx context.Context, versionIDs []string) (all []gates.Gate, err error) {
	versions, err := registry.VersionsByID(ctx, s.DB, versionIDs)
	if err != nil {
		return nil, err
	}
	ids, err := gates.DecidedOf(ctx, s.DB, slices.Collect(maps.Values(versions)))
	if err != nil {
		return nil, err
	}
	for _, of := range ids {
		g, err := s.Gates.Get(ctx, of[0], of[1])
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if g.Override != nil && g.Status == gates.Decided {
			before := g
			before.Override = nil
			all = append(all, before)
		}
		all = append(all, g)
	}
	return all, nil
}

// The statements stay the same, byte for byte; only key and signature change. It stops when no
// attestation of a revoked key is left.
func (s *Service) resign(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "resign")
	for {
		left := 0
		err := s.DB.InTx(ctx, func(tx *store.Tx) error {
			all, err := signedByRevoked(ctx, tx, chunk)
			left = len(all)
			if err != nil || left == 0 {
				return err
			}
			key, err := s.signingKey(ctx, tx)
			if err != nil {
				return err
			}
			for _, a := range all {
				envelope, err := key.Sign(intoto.PayloadType, a.statement)
				if err != nil {
					return err
				}
				if err := setSignature(ctx, tx, a.id, envelope.Signatures[0]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || left == 0 {
			return err
		}
	}
}
