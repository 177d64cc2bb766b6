package alerts

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A webhook's URL is enough to post to it, and its secret to sign: both are
// encrypted (sealed) in the database. A Rule in memory has them in plain text.

// sealed returns the rule with its address and secrets encrypted.
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

// open decrypts the address and secrets of a stored rule.
func (s *Service) open(r Rule) (Rule, error) {
	for column, text := range sealedColumns(&r.Address, r.Secret, r.OldSecret) {
		plain, err := s.Seal.Open([]byte(*text), place(r.ID, column))
		if err != nil {
			return r, err
		}
		*text = string(plain)
	}
	return r, nil
}

// sealedColumns maps the encrypted columns that have a value to it.
func sealedColumns(address, secret, oldSecret *string) map[string]*string {
	all := map[string]*string{"address": address}
	if secret != nil {
		all["secret"] = secret
	}
	if oldSecret != nil {
		all["old_secret"] = oldSecret
	}
	return all
}

// place binds a sealed value to its column and row, so that one that is copied to
// another rule does not decrypt.
func place(ruleID, column string) seal.Place {
	return seal.Place{Table: "alert_rules", Column: column, Row: ruleID}
}

// Reseal encrypts with the keyring's first key every value that another key
// encrypted, and returns their number. A value that the keyring cannot decrypt
// is an error.
func (s *Service) Reseal(ctx context.Context, tx *store.Tx) (count int, err error) {
	all, err := lockSealedTargets(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, t := range all {
		before := count
		for column, text := range sealedColumns(&t.address, t.secret, t.oldSecret) {
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
		if err := updateSealedTarget(ctx, tx, t); err != nil {
			return count, err
		}
	}
	return count, nil
}
