package alerts

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// ToOwners is the channel of rules without an address of their own: a mail to each person
// who owns the skill when the rule fires.
const ToOwners notify.Channel = "owners"

// maxRecipients limits the mails of one event: of larger teams the first get one.
const maxRecipients = 50

// Owners finds the people who own a skill. It is a hook; nil finds none.
type Owners interface {
	// OwnersOfSkill returns the ids of those who own the skill's entry, as people or in teams.
	OwnersOfSkill(ctx context.Context, q store.Querier, orgID, skillID string) ([]string, error)
	// MailAddress returns the address of a member; fault.NotFound if they were removed, or
	// are no person.
	MailAddress(ctx context.Context, orgID, userID string) (string, error)
}

// recipients returns whom the notification of a skill is for: nil is the rule's address.
// Without an owner it is the person who made the rule.
func (s *Service) recipients(ctx context.Context, tx *store.Tx, r Rule, skillID string) ([]*string, error) {
	if r.Channel != ToOwners {
		return []*string{nil}, nil
	}
	var owners []string
	var err error
	if s.Owners != nil {
		if owners, err = s.Owners.OwnersOfSkill(ctx, tx, r.OrgID, skillID); err != nil {
			return nil, err
		}
	}
	if len(owners) == 0 {
		return []*string{&r.CreatedBy}, nil
	}
	owners = owners[:min(len(owners), maxRecipients)]
	all := make([]*string, len(owners))
	for i := range owners {
		all[i] = &owners[i]
	}
	return all, nil
}

// targetOf returns where a delivery is sent. A refusal says why it cannot be sent any more.
func (s *Service) targetOf(ctx context.Context, r Rule, d Delivery) (t notify.Target, refusal string, err error) {
	switch {
	case (d.RecipientID != nil) != (r.Channel == ToOwners):
		return t, "not sent: the alert got another channel", nil
	case d.RecipientID == nil:
		return r.target(time.Now()), "", nil
	case s.Owners == nil:
		return t, "not sent: the skill has no owner", nil
	}
	address, err := s.Owners.MailAddress(ctx, r.OrgID, *d.RecipientID)
	if fault.Is(err, fault.NotFound) {
		return t, "not sent: this is no person of the organisation, or no longer", nil
	}
	return notify.Target{Channel: notify.Email, Address: address}, "", err
}
