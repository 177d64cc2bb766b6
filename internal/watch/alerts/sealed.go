package alerts

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A webhook's URL is enough to post to it, and its secret to sign: both are
// encrypted (sealed) in the database. A Rule in memory has them in plain text.

func sealedRow(ruleID string, address, secret, oldSecret *string) seal.Row {
	return seal.Row{Table: "alert_rules", ID: ruleID, Texts: map[string]*string{
		"address": address, "secret": secret, "old_secret": oldSecret,
	}}
}

// sealed returns the rule with its address and secrets encrypted.
func (s *Service) sealed(r Rule) Rule {
	r.Secret, r.OldSecret = clone(r.Secret), clone(r.OldSecret)
	s.Seal.SealRow(sealedRow(r.ID, &r.Address, r.Secret, r.OldSecret))
	return r
}

func clone(text *string) *string {
	if text == nil {
		return nil
	}
	copied := *text
	return &copied
}

// Reseal encrypts with the keyring's first key every value that another key
// encrypted, and returns their number.
func (s *Service) Reseal(ctx context.Context, tx *store.Tx) (count int, err error) {
	all, err := lockSealedTargets(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, t := range all {
		n, err := s.Seal.RenewRow(sealedRow(t.ruleID, &t.address, t.secret, t.oldSecret))
		if err == nil && n > 0 {
			err = updateSealedTarget(ctx, tx, t)
		}
		if count += n; err != nil {
			return count, err
		}
	}
	return count, nil
}
