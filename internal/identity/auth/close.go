package auth

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// CloseOrg closes the organisation of an owner, whose role it checks once more. All
// keys, sessions, tokens and invitations of it are refused from the commit on; call
// Forget after it. Other replicas may accept a key for keyCacheTTL.
func (s *Service) CloseOrg(ctx context.Context, tx *store.Tx, c access.Caller) error {
	crew, err := lockCrew(ctx, tx, c.OrgID, c.UserID, &c)
	if err != nil {
		return err
	}
	if crew.by.Role != access.Owner || crew.by.Narrowed() {
		return fault.New(fault.Denied, "Only an owner, with a key that has all permissions, can delete the organisation")
	}
	// Two owners may close it at the same time; the second is told that it's done.
	open, err := closeOrg(ctx, tx, c.OrgID, store.Now())
	if err == nil && !open {
		return fault.New(fault.Unauthorized, "This organisation was deleted")
	}
	return err
}
