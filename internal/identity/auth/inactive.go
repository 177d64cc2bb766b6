// Package inactive keeps people out whom the identity provider that pushes people with
// SCIM has deactivated, or who were removed here and were not activated there since.
package inactive

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Refuse refuses, with fault.Denied, a person with one of the addresses who is inactive. A
// member whom the provider lists as active gets in, whoever had the address before. The
// userID is "" for a person who isn't a member yet.
//
// It waits for a removal that is under way, and the next removal waits for this
// transaction: either this one sees the person inactive, or that one removes them.
func Refuse(ctx context.Context, tx *store.Tx, orgID, userID string, addresses ...string) error {
	if err := lockOwners(ctx, tx, orgID); err != nil {
		return err
	}
	if active, err := listed(ctx, tx, orgID, userID); err != nil || active {
		return err
	}
	slices.Sort(addresses)
	for _, address := range slices.Compact(addresses) {
		inactive, err := has(ctx, tx, orgID, address)
		if err != nil {
			return err
		}
		if inactive {
			return refusal(address)
		}
	}
	return nil
}

// RefuseFormer refuses a person who was the removed user, if that one is inactive. After
// the provider deleted them they are a stranger.
func RefuseFormer(ctx context.Context, tx *store.Tx, orgID, userID, address string) error {
	inactive, err := listed(ctx, tx, orgID, userID)
	if err == nil && inactive {
		return refusal(address)
	}
	return err
}

func refusal(address string) error {
	return fault.New(fault.Denied, "%s is inactive at the identity provider that manages the people of this organisation; "+
		"ask its administrator to activate you there, and try again", address)
}

// Members returns the ids of the members with one of the addresses, also of those whose
// account at a provider had one at the last sign-in. Members whom the provider lists under
// another of its users are left out. Nobody joins with one of the addresses until the
// transaction ends.
func Members(ctx context.Context, tx *store.Tx, orgID string, addresses []string) ([]string, error) {
	if err := lockOwners(ctx, tx, orgID); err != nil {
		return nil, err
	}
	return unlisted(ctx, tx, orgID, addresses)
}
