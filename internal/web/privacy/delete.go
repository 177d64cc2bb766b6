package privacy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Delete ends the organisation of an owner, who confirms it with its name. All keys and
// sessions of it end with the commit, on other replicas within seconds, and a job
// deletes everything. It cannot be undone.
func (s *Service) Delete(ctx context.Context, c access.Caller, confirm string) error {
	if err := checkWhole(c); err != nil {
		return err
	}
	// Exactly: a name in another case is a typo or another organisation.
	if confirm != c.OrgName {
		return fault.Invalid("confirm", "confirm must be the name of the organisation, %s", c.OrgName)
	}
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := s.Auth.CloseOrg(ctx, tx, c); err != nil {
			return err
		}
		if err := insertDeletion(ctx, tx, c.OrgID, store.Now()); err != nil {
			return err
		}
		if err := s.Jobs.DropRuns(ctx, tx, c.OrgID); err != nil { // they cost money
			return err
		}
		// The operator keeps this entry, so it names nobody.
		nobody := access.With(ctx, access.Caller{})
		err := audit.Record(nobody, tx, audit.Entry{
			OrgID: c.OrgID, Action: deleted, Target: audit.Target{Kind: "organisation", ID: c.OrgID},
		})
		if err != nil {
			return err
		}
		return s.Jobs.Enqueue(ctx, tx, purge{c.OrgID}, jobs.Unique(c.OrgID), jobs.Attempts(attempts), jobs.For(c.OrgID))
	})
	// Also after an error: the caches of keys are only a few seconds long anyway.
	s.Auth.Forget()
	return err
}

const (
	// batch is how many rows one transaction deletes: others wait for it on SQLite.
	batch = 1_000
	// blobBatch is how many keys of blobs are looked up at once.
	blobBatch = 500
	// maxPasses bounds how often the purge begins anew because something was written
	// meanwhile. The job is repeated after it.
	maxPasses = 10
	// lateWrites is how long after the end of an organisation a job of it may still
	// write a row.
	lateWrites = 48 * time.Hour
)

// Purge deletes all rows and blobs of an organisation that was deleted, in batches, and
// can be interrupted anywhere: blobs go before the rows that name them, and rows before
// those that they refer to. It repeats until it finds nothing.
func (s *Service) Purge(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "delete organisation %s", orgID)
	d, err := deletionByID(ctx, s.DB, orgID)
	if err != nil {
		return err
	}
	// It must never happen, and would be the worst bug of all: hence a check of its
	// own.
	open, err := isOpen(ctx, s.DB, orgID)
	if err != nil {
		return err
	}
	if open {
		return fault.New(fault.Conflict, "the organisation was not deleted")
	}
	// Other replicas may accept requests until their caches of keys have expired.
	if wait := time.Until(d.requestedAt.Add(cmp.Or(s.Settle, 5*time.Second))); wait > 0 {
		return jobs.Snooze(wait)
	}
	var p plan
	err = s.DB.Snapshot(ctx, func(tx *store.Tx) error {
		p, err = newPlan(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	// The plan has tables before those that refer to them.
	slices.Reverse(p)
	// A job that was running may have written rows behind the pass.
	for range maxPasses {
		rows, err := s.purgeOnce(ctx, orgID, p)
		if err != nil {
			return err
		}
		if rows == 0 {
			return finishDeletion(ctx, s.DB, orgID, store.Now())
		}
	}
	return fault.New(fault.Conflict, "rows are still being written")
}

// purgeOnce makes one pass over all tables, and returns how many rows it deleted.
func (s *Service) purgeOnce(ctx context.Context, orgID string, p plan) (rows int64, err error) {
	for _, rollups := range []func(context.Context, *store.DB, string) (int64, error){skills.ForgetSessions, signals.Forget} {
		n, err := rollups(ctx, s.DB, orgID)
		rows += n
		if err != nil {
			return rows, err
		}
	}
	for _, t := range p {
		blobs, err := s.purgeBlobs(ctx, orgID, t)
		if err != nil {
			return rows, err
		}
		n, err := s.purgeTable(ctx, orgID, t)
		rows += n
		if err != nil {
			return rows, err
		}
		if n > 0 || blobs > 0 {
			if err := countDeleted(ctx, s.DB, orgID, n, blobs); err != nil {
				return rows, err
			}
		}
	}
	// Archives of exports, whose rows may be gone already.
	for info, err := range s.Blobs.List(ctx, prefix+orgID+"/") {
		if err != nil {
			return rows, err
		}
		if err := s.Blobs.Delete(ctx, info.Key); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// purgeTable deletes the rows of a table in batches, each in its own transaction.
func (s *Service) purgeTable(ctx context.Context, orgID string, t table) (rows int64, err error) {
	for {
		var n int64
		err := s.DB.InTx(ctx, func(tx *store.Tx) (err error) {
			n, err = tx.DeleteSome(ctx, t.Table, batch, t.delete, orgID)
			return err
		})
		rows += n
		if err != nil || n == 0 {
			return rows, err
		}
	}
}

// purgeBlobs deletes the blobs of an organisation's rows of a table, except those that
// rows of others refer to: archives from before schema 33 are shared.
func (s *Service) purgeBlobs(ctx context.Context, orgID string, t table) (n int64, err error) {
	var keys []string
	flush := func() error {
		shared, err := sharedBlobs(ctx, s.DB, t, orgID, keys)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if shared[key] {
				continue
			}
			if err := s.Blobs.Delete(ctx, key); err != nil {
				return err
			}
			n++
		}
		keys = keys[:0]
		return nil
	}
	err = eachBlob(ctx, s.DB, t, t.delete, orgID, func(key string) error {
		if keys = append(keys, key); len(keys) < blobBatch {
			return nil
		}
		return flush()
	})
	if err != nil || len(keys) == 0 {
		return n, err
	}
	return n, flush()
}

// purgeLate deletes what jobs have written since, of organisations that are gone.
// Purging is idempotent, so organisations are simply purged again.
func (s *Service) purgeLate(ctx context.Context) error {
	all, err := deletionsSince(ctx, s.DB, store.Now().Add(-lateWrites))
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := s.Purge(ctx, d.orgID); err != nil {
			return err
		}
	}
	return nil
}
