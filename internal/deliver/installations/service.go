package installations

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/lru"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/invariants"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Service knows the installations. The cache of syncs is made with the first one, so
// that the struct needs no constructor.
type Service struct {
	DB       *store.DB
	Blobs    blob.Bucket
	Jobs     *jobs.Queue
	Registry *registry.Service

	once     sync.Once
	syncs    *lru.Cache[syncKey, syncEntry]
	holdings *lru.Cache[holdingKey, Holding]
}

func (s *Service) init() {
	s.syncs = lru.New[syncKey, syncEntry](maxSyncItems)
	s.holdings = lru.New[holdingKey, Holding](maxHoldings)
}

// Register makes the queue run the jobs of installations.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ expireSyncs) error {
		return expireReports(ctx, s.DB, store.Now().Add(-reportEvery))
	})
	s.Jobs.Every(time.Hour, expireSyncs{})
	jobs.Handle(s.Jobs, s.recountWaiting)
	s.Jobs.Every(recountEvery, recountMachines{})
}

// expireSyncs is the job that deletes last reports that are too old to count.
type expireSyncs struct{}

// Kind names the job.
func (expireSyncs) Kind() string { return "registry.forget-syncs" }

// Install records that the caller installed an entry. A second record of the
// same user, device and path replaces the first.
func (s *Service) Install(ctx context.Context, c access.Caller, n New) (state State, err error) {
	defer fault.Wrap(&err, "install entry %s", n.EntryID)
	var issues []fault.Issue
	issues = append(issues, registry.CheckText("install_path", n.InstallPath, maxPath)...)
	issues = append(issues, registry.CheckText("device_id", n.DeviceID, maxPath)...)
	issues = append(issues, registry.CheckText("content_hash", n.ContentHash, 64)...)
	n.Client = clientName(n.Client)
	issues = append(issues, registry.CheckText("client", n.Client, maxClient)...)
	if len(issues) > 0 {
		return state, fault.Issues(issues...)
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		// The lock serialises installations of an entry: of two at once by one
		// user, only one is the first.
		e, err := s.Registry.LockVisible(ctx, tx, c.OrgID, n.EntryID)
		if err != nil {
			return err
		}
		// A copy: the function may run again, and must not see the hash of the first
		// attempt.
		n := n
		n.ContentHash = recordedHash(cmp.Or(n.ContentHash, e.CurrentHash))
		if err := lockRecords(ctx, tx, c.UserID, []string{e.ID}); err != nil {
			return err
		}
		id, first, dropped, err := upsertInstallation(ctx, tx, c, n)
		if err != nil {
			return err
		}
		// After the record was written, from which the history is derived.
		if err := recordChanges(ctx, tx, c.UserID, []string{e.ID}); err != nil {
			return err
		}
		if err := recount(ctx, tx, c.OrgID, c.UserID, append(dropped, n.DeviceID)); err != nil {
			return err
		}
		if first {
			if err := s.Registry.CountInstallation(ctx, tx, e); err != nil {
				return err
			}
		}
		// The record differs from what the last reports said, so they are news again.
		if err := deleteReports(ctx, tx, c.UserID); err != nil {
			return err
		}
		if state, err = installationByID(ctx, tx, id); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "registry.installation.record", Target: audit.Target{Kind: "entry", ID: e.ID, Name: e.Name},
			Detail: audit.Detail{"device": n.DeviceID},
		})
	})
	return state, err
}

// OfEntry lists the installations of an entry by people of the organisation.
func (s *Service) OfEntry(ctx context.Context, orgID, entryID string) ([]State, error) {
	// It tells an unknown entry from one without installations.
	if _, err := s.Registry.Entry(ctx, orgID, entryID); err != nil {
		return nil, err
	}
	return installationsOfEntry(ctx, s.DB, orgID, entryID)
}

// OfCaller lists what the caller installed.
func (s *Service) OfCaller(ctx context.Context, c access.Caller) ([]State, error) {
	return installationsOfUser(ctx, s.DB, c)
}

// Check looks for entries whose installations are counted wrong.
func (s *Service) Check(ctx context.Context, q store.Querier) ([]invariants.Finding, error) {
	return invariants.Check(ctx, q, "installations", rules())
}
