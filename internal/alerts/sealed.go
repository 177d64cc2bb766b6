package alerts

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/seal"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Whoever knows a webhook's URL can post to it, and whoever knows its secret
// can sign: the database has both sealed. Rules in memory have them plain.

// sealed is the rule as the database keeps it.
func (s *Service) sealed(r Rule) Rule {
	r.Address = string(s.Seal.Seal([]byte(r.Address), place(r.ID, "address")))
	r.Secret = s.sealText(r.Secret, place(r.ID, "secret"))
	r.OldSecret = s.sealText(r.OldSecret, place(r.ID, "old_secret"))
	return r
}

func (s *Service) sealText(text *string, p seal.Place) *string {
	if text == nil {
		return nil
	}
	sealed := string(s.Seal.Seal([]byte(*text), p))
	return &sealed
}

// open is the rule that the database keeps.
func (s *Service) open(r Rule) (Rule, error) {
	for column, text := range present(&r.Address, r.Secret, r.OldSecret) {
		plain, err := s.Seal.Open([]byte(*text), place(r.ID, column))
		if err != nil {
			return r, err
		}
		*text = string(plain)
	}
	return r, nil
}

// present maps the columns that have a value to it.
func present(address, secret, oldSecret *string) map[string]*string {
	all := map[string]*string{"address": address}
	if secret != nil {
		all["secret"] = secret
	}
	if oldSecret != nil {
		all["old_secret"] = oldSecret
	}
	return all
}

func place(ruleID, column string) seal.Place {
	return seal.Place{Table: "alert_rules", Column: column, Row: ruleID}
}

// Reseal seals with the keyring's first key what was not, and returns how much
// that was. A value that the keyring does not open is an error.
func (s *Service) Reseal(ctx context.Context, tx *store.Tx) (count int, err error) {
	all, err := allTargets(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, t := range all {
		before := count
		for column, text := range present(&t.address, t.secret, t.oldSecret) {
			renewed, changed, err := s.Seal.Renew([]byte(*text), place(t.ruleID, column))
			if err != nil {
				return count, err
			}
			if changed {
				*text = string(renewed)
				count++
			}
		}
		if count == before {
			continue
		}
		if err := updateTarget(ctx, tx, t); err != nil {
			return count, err
		}
	}
	return count, nil
}
