package members

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/notify/delivery"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Service makes and accepts invitations.
type Service struct {
	DB   *store.DB
	Auth *auth.Service
	// PublicURL is the base of the links.
	PublicURL string

	// Jobs and Mailer send the links of invitations that have an address, and Secret makes
	// these links, the same on all replicas. Without a mail server people pass links on
	// themselves.
	Jobs   *jobs.Queue
	Mailer Mailer
	Secret []byte

	testBackoff delivery.Backoff
}

// Link is the address that a person opens to accept an invitation.
func (s *Service) Link(token string) string { return s.PublicURL + "/invite/" + token }

// Invite makes an invitation to the caller's organisation and returns its token, for
// the only time. It gives no role that the caller does not have, and lasts no longer
// than the caller's key. Without a mail server the token is random; with one it is derived, so that
// the job can make it again.
func (s *Service) Invite(ctx context.Context, c access.Caller, n NewInvitation) (i Invitation, token string, err error) {
	if i, err = newInvitation(n); err != nil {
		return i, "", err
	}
	i.OrgID, i.CreatedBy, i.KeyID = c.OrgID, &c.UserID, &c.KeyID
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		key, err := auth.CheckKeyUsable(ctx, tx, c)
		if err != nil {
			return err
		}
		if err := auth.LockInviter(ctx, tx, c, i.Role); err != nil {
			return err
		}
		if i.ExpiresAt, err = lifetime(n.ExpiresAt, key.ExpiresAt); err != nil {
			return err
		}
		if i.Email == nil || !s.SendsMail() {
			token = newToken()
			return insertNew(ctx, tx, i, token)
		}
		token = s.tokenOf(i.ID)
		if err := insertNew(ctx, tx, i, token); err != nil {
			return err
		}
		i.Mail, err = s.enqueueMail(ctx, tx, i)
		return err
	})
	return i, token, err
}

// InviteByOperator is Invite for the operator, who may give every role and passes the link
// on. It is never sent by mail.
func (s *Service) InviteByOperator(ctx context.Context, orgID string, n NewInvitation) (i Invitation, token string, err error) {
	if i, err = newInvitation(n); err != nil {
		return i, "", err
	}
	i.OrgID = orgID
	if i.ExpiresAt, err = lifetime(n.ExpiresAt, nil); err != nil {
		return i, "", err
	}
	token = newToken()
	err = s.DB.InTx(ctx, func(tx *store.Tx) error { return insertNew(ctx, tx, i, token) })
	return i, token, err
}

func newInvitation(n NewInvitation) (Invitation, error) {
	i := Invitation{ID: store.NewID(), Role: n.Role, CreatedAt: store.Now()}
	if !n.Role.Valid() {
		return i, fault.Invalid("role", "role must be viewer, member, admin or owner")
	}
	if n.Email != "" {
		email, err := auth.NormaliseEmail(strings.TrimSpace(n.Email))
		if err != nil {
			return i, err
		}
		i.Email = &email
	}
	return i, nil
}

// lifetime is when an invitation ends. One that outlived the key with which it was
// made would be a way around the end of that key. An expiry that is too late is refused; without
// one, it ends with the key.
func lifetime(wanted, keyEnds *time.Time) (time.Time, error) {
	now := store.Now()
	if wanted == nil {
		end := now.Add(DefaultLifetime)
		if keyEnds != nil && keyEnds.Before(end) {
			end = *keyEnds
		}
		return end, nil
	}
	switch {
	case !wanted.After(now):
		return now, fault.Invalid("expires_at", "expires_at must lie in the future")
	case wanted.After(now.Add(MaxLifetime + time.Minute)): // clocks differ
		return now, fault.Invalid("expires_at", "expires_at must be within %d days", int(MaxLifetime.Hours()/24))
	case keyEnds != nil && wanted.After(*keyEnds):
		return now, fault.Invalid("expires_at", "expires_at must not be later than %s, when the key you use expires; "+
			"leave it out, or use a key that lasts longer", keyEnds.UTC().Format(time.RFC3339))
	}
	return *wanted, nil
}

// insertNew also deletes invitations that expired long ago, which saves a scheduled job.
func insertNew(ctx context.Context, tx *store.Tx, i Invitation, token string) error {
	if err := deleteExpired(ctx, tx, i.OrgID, i.CreatedAt.Add(-kept)); err != nil {
		return err
	}
	n, err := countPending(ctx, tx, i.OrgID, i.CreatedAt)
	if err != nil {
		return err
	}
	if n >= maxPending {
		return fault.New(fault.Conflict, "%d invitations are pending, the maximum; delete some first", n)
	}
	if i.Email != nil {
		// Told now instead of when the person opens the link.
		taken, err := isMember(ctx, tx, i.OrgID, *i.Email)
		if err != nil {
			return err
		}
		if taken {
			return fault.New(fault.Conflict, "%s is a member of this organisation already", *i.Email)
		}
		if err := auth.RefuseInactive(ctx, tx, i.OrgID, "", *i.Email); err != nil {
			return err
		}
	}
	if err := insertInvitation(ctx, tx, i, hash(token)); err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: i.OrgID, Action: "auth.invitation.create", Target: i.target(),
		Detail: audit.Detail{"role": i.Role, "expires_at": i.ExpiresAt},
	})
}

// List returns a page of an organisation's invitations, newest first, and their number.
func (s *Service) List(ctx context.Context, orgID string, p store.Page) ([]Invitation, int, error) {
	all, total, err := listed.Page(ctx, s.DB, p, orgID)
	if err != nil {
		return nil, 0, err
	}
	ids := make([]string, len(all))
	for i, invitation := range all {
		ids[i] = invitation.ID
	}
	letters, err := lettersOf(ctx, s.DB, orgID, ids)
	for _, l := range letters {
		all[slices.Index(ids, l.invitationID)].Mail = &l.Progress
	}
	return all, total, err
}

// Revoke ends an invitation at once. Ending an ended one is not an error, and one that
// was accepted is fault.Conflict. Its mail, if it is still queued, finds it revoked and isn't sent.
func (s *Service) Revoke(ctx context.Context, orgID, id string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		i, err := invitationByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		switch i.State() {
		case Accepted:
			return fault.New(fault.Conflict, "This invitation was used; remove the member instead")
		case Revoked:
			return nil
		}
		if err := markRevoked(ctx, tx, i, store.Now()); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{OrgID: i.OrgID, Action: "auth.invitation.revoke", Target: i.target()})
	})
}

// An Offer is an invitation as the invited person sees it. The page shows it before the person has
// an account, so it has nothing about the organisation but its name.
type Offer struct {
	Invitation
	OrgName string
	Inviter string // the name of the person who made it; "" if it was made on the server
}

// Look returns the invitation with that token, and changes nothing. An unknown one is
// fault.NotFound, and one that cannot be used any more fault.Conflict. The state is told only to
// those who have the token.
func (s *Service) Look(ctx context.Context, token string) (Offer, error) {
	return look(ctx, s.DB, token)
}

func look(ctx context.Context, q store.Querier, token string) (Offer, error) {
	unknown := fault.New(fault.NotFound, "This invitation is not known: check that the link is complete, or ask for a new one")
	if !pattern.MatchString(token) { // saves a query
		return Offer{}, unknown
	}
	o, err := offerByHash(ctx, q, hash(token))
	if fault.Is(err, fault.NotFound) {
		return o, unknown
	}
	if err != nil {
		return o, err
	}
	return o, o.refusal()
}

// An Acceptance is what the invited person says.
type Acceptance struct {
	Token   string
	Name    string // the part of the address before the @ when empty
	Email   string // only if the invitation has none
	KeyName string
}

// A Joined person is a member now.
type Joined struct {
	User    auth.User
	Key     auth.Key
	RawKey  string // it is not stored
	OrgName string
}

// Accept makes the invited person a member with a first key. Of several requests with
// one token, on whatever replica, one succeeds. Everything happens in one transaction: a failure in
// between leaves the invitation pending.
func (s *Service) Accept(ctx context.Context, a Acceptance) (j Joined, err error) {
	if utf8.RuneCountInString(a.Name) > maxName {
		return j, fault.Invalid("name", "name must have at most %d characters", maxName)
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		o, err := look(ctx, tx, a.Token)
		if err != nil {
			return err
		}
		email, err := o.address(a.Email)
		if err != nil {
			return err
		}
		// Before it is taken, so that the message is about the inviter and not about a used link.
		if err := o.checkInviter(ctx, tx); err != nil {
			return err
		}
		// The statement that takes the invitation decides between concurrent requests.
		if taken, err := take(ctx, tx, o.ID, store.Now()); err != nil {
			return err
		} else if !taken {
			// It was pending a moment ago: find out what happened since.
			now, err := invitationByID(ctx, tx, o.OrgID, o.ID, "")
			if err != nil {
				return err
			}
			if err := now.refusal(); err != nil {
				return err
			}
			return fault.New(fault.Conflict, "This invitation was used already: a link works once; ask for a new one")

		}
		u, k, raw, err := auth.Join(ctx, tx, auth.Joiner{
			NewUser: auth.NewUser{OrgID: o.OrgID, Email: email, Name: strings.TrimSpace(a.Name), Role: o.Role},
			KeyName: a.KeyName, ByKey: o.KeyID, Claimed: o.Email == nil,
		})
		if err != nil {
			return err
		}
		j = Joined{u, k, raw, o.OrgName}
		if err := setAcceptedBy(ctx, tx, o.ID, u.ID); err != nil {
			return err
		}
		ctx = access.With(ctx, access.Caller{OrgID: u.OrgID, UserID: u.ID, Email: u.Email})
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: o.OrgID, Action: "auth.invitation.accept", Target: o.target(),
			Detail: audit.Detail{"user": u.ID, "role": u.Role, "invited_by": o.CreatedBy},
		})
	})
	return j, err
}

// address is that of the new member: the invitation's, or else what the person says. An invitation
// that names an address belongs to it: the person can't choose another.
func (o Offer) address(said string) (string, error) {
	said = strings.TrimSpace(said)
	if o.Email == nil {
		return auth.NormaliseEmail(said)
	}
	if said != "" && !strings.EqualFold(said, *o.Email) {
		return "", fault.Invalid("email", "this invitation is for %s; leave email out, or ask for an invitation of your own",
			*o.Email)
	}
	return *o.Email, nil
}

// checkInviter refuses an invitation whose inviter was removed, or may not give its
// role any more. An invitation must not outlive the rights that it was made with.
func (o Offer) checkInviter(ctx context.Context, tx *store.Tx) error {
	if o.CreatedBy == nil {
		return nil
	}
	ok, err := auth.InviterMayGive(ctx, tx, o.OrgID, *o.CreatedBy, o.Role)
	if err == nil && !ok {
		return fault.New(fault.Conflict, "The person who invited you can no longer give the role %s; ask for a new invitation",
			o.Role)
	}
	return err
}
