package auth

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// FreshSession is how old a browser's sign-in may be for a decision that ends the
// organisation.
const FreshSession = 15 * time.Minute

// CheckFresh refuses a session that was signed in longer than FreshSession ago.
func (s *Service) CheckFresh(ctx context.Context, c access.Caller, sessionID string) error {
	sessions, err := s.Sessions(ctx, c.OrgID, c.UserID)
	if err != nil {
		return err
	}
	for _, found := range sessions {
		if found.ID == sessionID && time.Since(found.CreatedAt) <= FreshSession {
			return nil
		}
	}
	return fault.New(fault.Denied, "You signed in more than %d minutes ago; sign out, sign in again, and repeat this",
		int(FreshSession.Minutes()))
}

// CloseOrg closes the organisation of an owner, whose role it checks once more. All
// keys, sessions, catalog tokens and invitations of it are refused from the commit on;
// call Closed after it. Other replicas may accept a key for keyCacheTTL.
func (s *Service) CloseOrg(ctx context.Context, tx *store.Tx, c access.Caller) error {
	crew, err := lockCrew(ctx, tx, c.OrgID, c.UserID, &c)
	if err != nil {
		return err
	}
	if crew.by.Role != access.Owner || crew.by.Narrowed() {
		return fault.New(fault.Denied, "Only an owner, with a key that has all permissions, can delete the organisation")
	}
	open, err := closeOrg(ctx, tx, c.OrgID, store.Now())
	if err == nil && !open {
		return fault.New(fault.Unauthorized, "This organisation was deleted")
	}
	return err
}

// Closed makes this process forget the keys that it has cached.
func (s *Service) Closed() { s.keys.Clear() }
