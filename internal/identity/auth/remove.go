package auth

import (
	"context"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Removal describes a member to remove.
type Removal struct {
	UserID string
	// Made also revokes the keys that were made with the member's: those of machines
	// and the first ones of people whom they invited.
	Made bool
}

// Remove removes a member from the caller's organisation. In one transaction their
// keys are revoked, their sessions end, the logins that they approved are denied, and
// the invitations that they made end. What they made stays, with their name. Other
// replicas may accept a key for keyCacheTTL. Admins remove everybody but owners, and
// the last owner stays. The row stays, so that names on versions, reviews and the audit log remain.
func (s *Service) Remove(ctx context.Context, c access.Caller, r Removal) (User, error) {
	if c.UserID == r.UserID {
		return User{}, fault.New(fault.Conflict, "This is you; leave the organisation instead")
	}
	return s.remove(ctx, &c, c.OrgID, r)
}

// RemoveByOperator is Remove for the operator, who may remove everybody but the last
// owner.
func (s *Service) RemoveByOperator(ctx context.Context, orgID string, r Removal) (User, error) {
	return s.remove(ctx, nil, orgID, r)
}

// Leave removes the caller. The address confirms it. A narrowed key cannot: it would
// end the others of its holder. Typing the address prevents a wrong click from ending everything.
func (s *Service) Leave(ctx context.Context, c access.Caller, email string) error {
	if !strings.EqualFold(strings.TrimSpace(email), c.Email) {
		return fault.Invalid("email", "email must be your own address, %s, to confirm that you leave", c.Email)
	}
	if c.Narrowed() {
		return fault.New(fault.Denied, "Your key has fewer permissions than the role %s; use one that has them all", c.Role)
	}
	_, err := s.remove(ctx, &c, c.OrgID, Removal{UserID: c.UserID})
	return err
}

// remove runs removeIn in a transaction of its own and clears the cache.
func (s *Service) remove(ctx context.Context, c *access.Caller, orgID string, r Removal) (u User, err error) {
	err = s.InTx(ctx, func(tx *store.Tx) error {
		u, err = s.removeIn(ctx, tx, c, orgID, r)
		return err
	})
	return u, err
}

// removeIn is the same within a transaction. c is nil for the operator and for an identity
// provider.
func (s *Service) removeIn(ctx context.Context, tx *store.Tx, c *access.Caller, orgID string, r Removal) (u User, err error) {
	// Keys are locked before people, as everywhere.
	if _, err := lockKeysOfUser(ctx, tx, orgID, r.UserID, cascade(r.Made)); err != nil {
		return u, err
	}
	crew, err := lockCrew(ctx, tx, orgID, r.UserID, c)
	if err != nil {
		return u, err
	}
	if u = crew.target; u.ServiceAccount {
		return u, errNoMember()
	}
	if c == nil || c.UserID != u.ID { // everybody may leave
		if err := crew.checkMay(u.Role); err != nil {
			return u, err
		}
	}
	if err := crew.checkOwnerLeft(ctx, tx, "make another person owner first"); err != nil {
		return u, err
	}
	// Once more: a key may have been made since. The locked user admits no more.
	doomed, err := lockKeysOfUser(ctx, tx, orgID, u.ID, cascade(r.Made))
	if err != nil {
		return u, err
	}
	if crew.by != nil && r.Made {
		if err := checkMayRevoke(ctx, tx, *crew.by, "", doomed); err != nil {
			return u, err
		}
	}
	role := u.Role
	if u, err = removeLocked(ctx, tx, u, doomed, cascade(r.Made)); err != nil {
		return u, err
	}
	return u, events.Emit(ctx, tx, s.Jobs, events.Event{
		OrgID: u.OrgID, Type: events.MemberRemoved, Path: "/members",
		Data: events.Data{"user_id": u.ID, "email": u.Email, "name": u.Name, "role": role},
	})
}

// removeLocked ends everything that the member could act with. The role is lowered to viewer, so
// that a mistake elsewhere gives away as little as possible.
func removeLocked(ctx context.Context, tx *store.Tx, u User, doomed []Key, e cascade) (User, error) {
	now := store.Now()
	role := u.Role
	u.RemovedAt, u.Role = &now, access.Viewer
	if err := markUserRemoved(ctx, tx, u); err != nil {
		return u, err
	}
	if err := revokeAll(ctx, tx, doomed, e); err != nil {
		return u, err
	}
	if err := denyDevicesOfUser(ctx, tx, u); err != nil {
		return u, err
	}
	sessions, err := deleteSessionsOfUser(ctx, tx, u)
	if err != nil {
		return u, err
	}
	invitations, err := revokeInvitationsOfUser(ctx, tx, u)
	if err != nil {
		return u, err
	}
	return u, audit.Record(ctx, tx, audit.Entry{
		OrgID: u.OrgID, Action: "auth.user.remove", Target: u.target(),
		Detail: audit.Detail{"role": role, "keys": len(doomed), "sessions": sessions, "invitations": invitations},
	})
}

// Belongings are what ends when a member is removed.
type Belongings struct {
	Keys        []Key // active
	Made        []Key // active keys of others that were made with theirs; they end if Removal.Made
	Sessions    int
	Invitations int // not accepted yet
}

// Belongings returns what would end with a member. It is shown before the removal, so it reads
// without locks and may be out of date by then.
func (s *Service) Belongings(ctx context.Context, orgID, userID string) (b Belongings, err error) {
	keys, err := keysOfUser(ctx, s.DB, orgID, userID)
	if err != nil {
		return b, err
	}
	made, err := s.MadeKeys(ctx, orgID)
	if err != nil {
		return b, err
	}
	seen := map[string]bool{}
	for _, k := range keys {
		if k.State() == keyActive {
			b.Keys = append(b.Keys, k)
		}
		for _, m := range made[k.ID] {
			if m.UserID != userID && !seen[m.ID] {
				seen[m.ID] = true
				b.Made = append(b.Made, m)
			}
		}
	}
	slices.SortFunc(b.Made, func(a, b Key) int { return strings.Compare(a.ID, b.ID) })
	sessions, err := liveSessions(ctx, s.DB, orgID, userID, store.Now())
	if err != nil {
		return b, err
	}
	b.Sessions = len(sessions)
	b.Invitations, err = countInvitationsOfUser(ctx, s.DB, orgID, userID, store.Now())
	return b, err
}
