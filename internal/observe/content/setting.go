package content

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Enabled reports whether an organisation keeps content. It does not unless an
// owner switched it on.
func (s *Service) Enabled(ctx context.Context, orgID string) (bool, error) {
	return enabled(ctx, s.DB, orgID)
}

// SetEnabled switches the keeping of content of the caller's organisation on or
// off. Only an owner may. When it returns, nothing more is kept; what is there stays
// until it expires or is deleted.
func (s *Service) SetEnabled(ctx context.Context, c access.Caller, on bool) (err error) {
	defer fault.Wrap(&err, "content setting")
	if err := checkOwner(c); err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := setEnabled(ctx, tx, c.OrgID, on); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: c.OrgID, Action: "evidence.setting.change", Target: organisation(c), Detail: audit.Detail{"enabled": on},
		})
	})
}

// DeleteAll deletes all content of the caller's organisation. Only an owner may.
func (s *Service) DeleteAll(ctx context.Context, c access.Caller) (err error) {
	defer fault.Wrap(&err, "delete content")
	if err := checkOwner(c); err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		err := audit.Record(ctx, tx, audit.Entry{OrgID: c.OrgID, Action: "evidence.content.delete", Target: organisation(c)})
		if err != nil {
			return err
		}
		if err := s.delete(ctx, tx, `org_id = $1`, c.OrgID); err != nil || s.Quotations == nil {
			return err
		}
		return s.Quotations.DropQuotations(ctx, tx, c.OrgID, store.Now().Add(time.Hour)) // all: no clock is that wrong
	})
}

func checkOwner(c access.Caller) error {
	if c.Role != access.Owner {
		return fault.New(fault.Denied, "This needs the role %s", access.Owner)
	}
	return nil
}

func organisation(c access.Caller) audit.Target {
	return audit.Target{Kind: "organisation", ID: c.OrgID, Name: c.OrgName}
}
