// Package guard says who may choose what an entry is published from, and whether the file
// of a repository names its owners. It owns no tables.
package guard

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Entries knows which entries not every member decides about.
type Entries interface {
	// Guarded reports whether an entry has owners, asks for approvals or has an enforced gate.
	Guarded(ctx context.Context, q store.Querier, orgID, entryID string) (bool, error)
	// MayAsOwner reports whether the caller owns the entry.
	MayAsOwner(ctx context.Context, c access.Caller, entryID string) (bool, error)
}

// May reports whether a caller may say who owns an entry, and what a guarded one is
// published from: its owners and admins may. The entries may be nil.
func May(ctx context.Context, e Entries, c access.Caller, entryID string) (bool, error) {
	if c.May(access.Admin) || e == nil {
		return c.May(access.Admin), nil
	}
	return e.MayAsOwner(ctx, c, entryID)
}

// A Connection is what Check asks about: the entry, "" for one that is yet to be created,
// and whether the change decides who names its owners.
type Connection struct {
	EntryID string
	Owners  bool
}

// Connect refuses a caller who may not connect an entry.
func Connect(ctx context.Context, q store.Querier, e Entries, c access.Caller, n Connection) error {
	may, err := May(ctx, e, c, n.EntryID)
	if err != nil || may {
		return err
	}
	return Check(ctx, q, e, c.OrgID, n)
}

// Check refuses a caller for whom May is false what changes the owners of an entry or, of a
// guarded one, what it is published from.
func Check(ctx context.Context, q store.Querier, e Entries, orgID string, n Connection) error {
	if n.Owners {
		return ErrOwners()
	}
	if e == nil {
		return nil
	}
	guarded, err := e.Guarded(ctx, q, orgID, n.EntryID)
	if err == nil && guarded {
		err = fault.New(fault.Denied, "This entry has owners, approvals or an enforced gate: only its owners, and people with the permission %s,"+
			" choose the repository, branch, path and tags that it is published from", access.Admin)
	}
	return err
}

// ErrOwners says who decides whether a file names owners.
func ErrOwners() error {
	return fault.New(fault.Denied, "Only owners of the entry, and people with the permission %s, decide whether the CODEOWNERS file of"+
		" a repository names its owners", access.Admin)
}
