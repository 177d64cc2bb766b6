package audit

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service reads the audit log, and sends it to a collector.
type Service struct {
	DB *store.DB
	// Retention is how long entries are kept; 0 keeps them forever.
	Retention time.Duration
	Jobs      *jobs.Queue
	Collector *Collector // nil for none

	testSettled *time.Duration
}

// A Filter selects entries; a zero field selects all.
type Filter struct {
	Actor        string // a user's or key's id, a person's address, or a kind of actor
	Action       string // prefix of the action, e.g. "registry."
	Target       string // its id or its name
	Since, Until *time.Time
	Before       string // cursor: the id of the last entry of the page before
	Limit        int
}

// Between parses Since and Until: see httpapi.Between.
func (f *Filter) Between(since, until string) (err error) {
	f.Since, f.Until, err = httpapi.Between(since, until)
	return err
}

// List returns at most Limit entries of an organisation, newest first, and whether
// there are more. An unknown cursor is fault.Malformed.
func (s *Service) List(ctx context.Context, orgID string, f Filter) (_ []Entry, more bool, err error) {
	defer fault.Wrap(&err, "audit entries")
	end := Entry{At: store.Now().Add(farFuture)}
	if f.Before != "" {
		end, err = entryByID(ctx, s.DB, orgID, f.Before)
		if fault.Is(err, fault.NotFound) {
			return nil, false, fault.Invalid("cursor",
				"cursor must be a next_cursor of an earlier answer whose entries are still kept")
		}
		if err != nil {
			return nil, false, err
		}
	}
	f.Limit++
	found, err := entriesBefore(ctx, s.DB, orgID, end, f)
	if len(found) < f.Limit {
		return found, false, err
	}
	return found[:f.Limit-1], true, err
}

// farFuture is more than the clock of any replica is ahead.
const farFuture = 100 * 365 * 24 * time.Hour

// Sweep deletes entries that are older than the retention. It runs on a schedule.
func (s *Service) Sweep(ctx context.Context) error {
	if s.Retention == 0 {
		return nil
	}
	return store.Expiry{Table: "audit_entries", Before: store.Now().Add(-s.Retention)}.Run(ctx, s.DB)
}
