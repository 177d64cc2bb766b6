package telemetry

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Expire deletes the prompts and records that were received before a time, and tells for
// each organisation that had some that they changed. It may run twice.
func (s *Service) Expire(ctx context.Context, before time.Time) error {
	recorded := map[string]bool{} // by organisation
	var fresh []string            // recorded by the transaction that runs
	note := func(ctx context.Context, tx *store.Tx, orgIDs []string) error {
		fresh = nil
		for _, id := range orgIDs {
			if recorded[id] {
				continue
			}
			fresh = append(fresh, id)
			if err := audit.Record(ctx, tx, audit.Entry{
				OrgID: id, Action: "telemetry.data.expire", Target: audit.Target{Kind: "organisation", ID: id},
				Detail: audit.Detail{"received_before": before},
			}); err != nil {
				return err
			}
			if err := s.notify(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	}
	for _, table := range []string{"telemetry_prompts", "telemetry_records"} {
		err := store.Expiry{
			Table: table, Before: before, Orgs: orgsIn, Note: note,
			Committed: func() {
				for _, id := range fresh {
					recorded[id] = true
				}
			},
		}.Run(ctx, s.DB)
		if err != nil {
			return err
		}
	}
	return nil
}
