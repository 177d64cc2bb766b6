package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Guard knows which entries not every member decides about.
type Guard interface {
	// Guarded reports whether an entry has owners, asks for approvals or has an enforced gate.
	Guarded(ctx context.Context, q store.Querier, orgID, entryID string) (bool, error)
	// MayAsOwner reports whether the caller owns the entry.
	MayAsOwner(ctx context.Context, c access.Caller, entryID string) (bool, error)
}

// mayGuarded reports whether a caller may say who owns an entry, and what a guarded one is
// published from: its owners and admins may.
func (s *Service) mayGuarded(ctx context.Context, c access.Caller, entryID string) (bool, error) {
	if c.May(access.Admin) || s.Guard == nil {
		return c.May(access.Admin), nil
	}
	return s.Guard.MayAsOwner(ctx, c, entryID)
}

// checkConnect refuses a caller who may not connect an entry, "" for one that is yet to be
// created, or not with a file that names its owners.
func (s *Service) checkConnect(ctx context.Context, c access.Caller, entryID string, owners bool) error {
	may, err := s.mayGuarded(ctx, c, entryID)
	if err != nil || may {
		return err
	}
	return s.checkGuarded(ctx, s.DB, c.OrgID, entryID, owners)
}

// checkGuarded refuses a caller for whom mayGuarded is false what changes the owners of an
// entry or, of a guarded one, what it is published from.
func (s *Service) checkGuarded(ctx context.Context, q store.Querier, orgID, entryID string, owners bool) error {
	if owners {
		return errOwners()
	}
	if s.Guard == nil {
		return nil
	}
	guarded, err := s.Guard.Guarded(ctx, q, orgID, entryID)
	if err == nil && guarded {
		err = fault.New(fault.Denied, "This entry has owners, approvals or an enforced gate: only its owners, and people with"+
			" the permission %s, choose the repository, branch, path and tags that it is published from", access.Admin)
	}
	return err
}

// errOwners says who decides whether a file names owners.
func errOwners() error {
	return fault.New(fault.Denied, "Only owners of the entry, and people with the permission %s, decide whether the CODEOWNERS"+
		" file of a repository names its owners", access.Admin)
}
