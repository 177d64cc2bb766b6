package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Guard knows which entries are protected from ordinary members. Without this check,
// connecting another repository would be a way around owners, approvals and gates.
type Guard interface {
	// Guarded reports whether an entry has owners, requires approvals, or has an enforced
	// gate.
	Guarded(ctx context.Context, q store.Querier, orgID, entryID string) (bool, error)
	// MayAsOwner reports whether the caller owns the entry.
	MayAsOwner(ctx context.Context, c access.Caller, entryID string) (bool, error)
}

// mayGuarded reports whether the caller may change owners and sources of a guarded entry:
// admins and its owners may.
func (s *Service) mayGuarded(ctx context.Context, c access.Caller, entryID string) (bool, error) {
	if c.May(access.Admin) || s.Guard == nil {
		return c.May(access.Admin), nil
	}
	return s.Guard.MayAsOwner(ctx, c, entryID)
}

// checkConnect returns fault.Denied if the caller may not connect a repository to the
// entry, or not with a CODEOWNERS file that counts. entryID is "" for an entry that
// doesn't exist yet.
func (s *Service) checkConnect(ctx context.Context, c access.Caller, entryID string, owners bool) error {
	may, err := s.mayGuarded(ctx, c, entryID)
	if err != nil || may {
		return err
	}
	return s.checkGuarded(ctx, s.DB, c.OrgID, entryID, owners)
}

// checkGuarded is for callers for whom mayGuarded is false: it denies any change of
// owners and, for a guarded entry, of where it's published from.
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

// errOwners explains who may decide whether a CODEOWNERS file counts.
func errOwners() error {
	return fault.New(fault.Denied, "Only owners of the entry, and people with the permission %s, decide whether the CODEOWNERS"+
		" file of a repository names its owners", access.Admin)
}
