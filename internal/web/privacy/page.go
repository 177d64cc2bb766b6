package privacy

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// A Page is what the page of settings shows.
type Page struct {
	Owner  bool    // who may export and delete the organisation
	Export *Export // the newest one; nil if there is none
	Link   string  // to download it; "" unless it is done
}

// Page returns what a caller sees. Others than owners see that owners can do it, and
// nothing else.
func (s *Service) Page(ctx context.Context, c access.Caller) (p Page, err error) {
	if p.Owner = checkWhole(c) == nil; !p.Owner {
		return p, nil
	}
	e, err := s.Newest(ctx, c)
	if fault.Is(err, fault.NotFound) {
		return p, nil
	}
	p.Export = &e
	if err != nil || e.State != Done {
		return p, err
	}
	p.Link, _, err = s.Link(ctx, e)
	return p, err
}

// freshSession is how old the sign-in of a browser may be that deletes the organisation.
const freshSession = 15 * time.Minute

// DeleteInBrowser is Delete for a session, which must be fresh. A stolen cookie
// alone must not be able to delete an organisation.
func (s *Service) DeleteInBrowser(ctx context.Context, c access.Caller, sessionID, confirm string) error {
	sessions, err := s.Auth.Sessions(ctx, c.OrgID, c.UserID)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(sessions, func(found auth.Session) bool {
		return found.ID == sessionID && time.Since(found.CreatedAt) <= freshSession
	}) {
		return fault.New(fault.Denied, "You signed in more than %d minutes ago; sign out, sign in again, and repeat this",
			int(freshSession.Minutes()))
	}
	return s.Delete(ctx, c, confirm)
}
