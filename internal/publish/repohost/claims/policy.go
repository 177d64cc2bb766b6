package claims

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Policy decides how accounts are claimed.
type Policy struct {
	// OperatorOnly: only the operator assigns accounts. Otherwise the first organisation
	// to bind an unclaimed account gets it, but only on a server with a single
	// organisation: with several, none can prove that an account is its own.
	OperatorOnly bool
}

// Check returns an error if the organisation can't claim the account. It's called before
// any request to the code host.
func (p Policy) Check(ctx context.Context, q store.Querier, orgID, account string) error {
	holder, found, err := Holder(ctx, q, account)
	if err != nil || holder == orgID {
		return err
	}
	mine, others, err := around(ctx, q, orgID, account)
	switch {
	case err != nil:
		return err
	case found || others:
		return p.ErrNotClaimed(account)
	case mine: // a group that the organisation holds has its subgroups
		return nil
	}
	// Refuse to give an account that no organisation holds to the first that binds it.
	if p.OperatorOnly {
		return p.ErrNotClaimed(account)
	}
	several, err := severalOrganisations(ctx, q)
	if err == nil && several {
		err = fault.New(fault.Conflict, "This server has several organisations, so the operator assigns the account %[1]s to one with"+
			" `whetstone repohost allow ORG %[1]s`", account).WithCode("claim_required")
	}
	return err
}

// Claim claims an account for the organisation, if the policy allows that. It's a no-op
// for an account that the organisation holds.
func (p Policy) Claim(ctx context.Context, tx *store.Tx, orgID, account string) error {
	if err := p.Check(ctx, tx, orgID, account); err != nil {
		return err
	}
	if err := Insert(ctx, tx, account, orgID); err != nil {
		return err
	}
	// Insert ignores conflicts: see who won.
	holder, _, err := Holder(ctx, tx, account)
	if err != nil || holder == orgID {
		return err
	}
	return p.ErrNotClaimed(account)
}

// ErrNotClaimed explains how to get an account without saying who has it. Where the
// operator assigns accounts, it doesn't even reveal that someone has it.
func (p Policy) ErrNotClaimed(account string) error {
	if p.OperatorOnly {
		return fault.New(fault.Conflict, "The account %[1]s is not this organisation's; the operator can give it to one with"+
			" `whetstone repohost allow ORG %[1]s`", account).WithCode("claim_required")
	}
	return fault.New(fault.Conflict,
		"The account %[1]s belongs to another organisation, or several have bound it; the operator can"+
			" decide with `whetstone repohost allow ORG %[1]s`", account)
}
