package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/repohost/claims"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Claims returns all claims by account, for the operator.
func (s *Service) Claims(ctx context.Context) ([]claims.Claim, error) { return claims.All(ctx, s.DB) }

// Allow assigns an account to an organisation, for the operator: see
// claims.Allow.
func (s *Service) Allow(ctx context.Context, orgID, account string, move bool) error {
	return claims.Allow(ctx, s.DB, orgID, account, move)
}

// Release deletes the claim on an account, for the operator.
func (s *Service) Release(ctx context.Context, account string) error {
	return claims.Release(ctx, s.DB, account)
}

// checkClaim refuses an account that the organisation cannot claim, before any
// request is made to the code host.
func (s *Service) checkClaim(ctx context.Context, orgID, account string) error {
	holder, found, err := claims.Holder(ctx, s.DB, account)
	if err != nil || holder == orgID || !found && !s.OperatorClaims {
		return err
	}
	return s.errNotClaimed(account)
}

// claimAccount claims an unclaimed account for the organisation, unless only
// the operator may.
func (s *Service) claimAccount(ctx context.Context, tx *store.Tx, orgID, account string) error {
	if !s.OperatorClaims {
		if err := claims.Insert(ctx, tx, account, orgID); err != nil {
			return err
		}
	}
	holder, _, err := claims.Holder(ctx, tx, account)
	if err != nil || holder == orgID {
		return err
	}
	return s.errNotClaimed(account)
}

// errNotClaimed says how to get an account, but not which organisation has it.
// Where the operator assigns accounts, it does not reveal that one has it.
func (s *Service) errNotClaimed(account string) error {
	if s.OperatorClaims {
		return fault.New(fault.Conflict, "The account %[1]s is not this organisation's; the operator can give it to one with"+
			" `whetstone repohost allow ORG %[1]s`", account)
	}
	return fault.New(fault.Conflict, "The account %[1]s belongs to another organisation, or several have bound it; the operator can"+
		" decide with `whetstone repohost allow ORG %[1]s`", account)
}
