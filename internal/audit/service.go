package audit

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service reads the record.
type Service struct {
	DB *store.DB
	// Retention is how long entries are kept; 0 keeps them for ever.
	Retention time.Duration
}

// A Filter chooses entries; a zero field chooses all.
type Filter struct {
	Actor        string // a user's or key's id, a person's address, or a kind of actor
	Action       string // what the action begins with
	Target       string // its id or its name
	Since, Until *time.Time
	Before       string // the id of the entry before the first that is wanted
	Limit        int
}

// Between reads the times that a person or a program gives, RFC 3339 or a day;
// an empty one leaves its end open.
func (f *Filter) Between(since, until string) error {
	var issues []fault.Issue
	for _, given := range []struct {
		name, text string
		field      **time.Time
	}{{"since", since, &f.Since}, {"until", until, &f.Until}} {
		if given.text == "" {
			continue
		}
		t, err := parseTime(given.text)
		if err != nil {
			issues = append(issues, fault.At(given.name, "%s must be an RFC 3339 time or a day like 2026-01-02", given.name))
			continue
		}
		*given.field = &t
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// parseTime reads a time or a day.
func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	return time.Parse(time.DateOnly, text)
}

// List returns an organisation's entries, newest first: at most the limit, and
// whether there are more. A Before that names no entry is invalid.
func (s *Service) List(ctx context.Context, orgID string, f Filter) (_ []Entry, more bool, err error) {
	defer fault.Wrap(&err, "audit entries")
	end := Entry{At: store.Now().Add(farFuture)}
	if f.Before != "" {
		end, err = entryByID(ctx, s.DB, orgID, f.Before)
		if fault.Is(err, fault.NotFound) {
			return nil, false, fault.Invalid("cursor", "cursor must be a next_cursor of an earlier answer whose entries are still kept")
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

// farFuture is more than any clock of a replica runs ahead.
const farFuture = 100 * 365 * 24 * time.Hour

// Sweep removes entries that are older than the retention. It is run on a
// schedule.
func (s *Service) Sweep(ctx context.Context) error {
	if s.Retention == 0 {
		return nil
	}
	return deleteBefore(ctx, s.DB, store.Now().Add(-s.Retention))
}
