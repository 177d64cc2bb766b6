package claims

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Policy says how accounts get claimed.
type Policy struct {
	// OperatorOnly lets only the operator assign accounts to organisations. Otherwise
	// the first organisation that binds an unclaimed account gets it, as long as the
	// server has one organisation: of several, none can prove that an account is its own.
	OperatorOnly bool
}

// Check refuses an account that the organisation cannot claim, before any request
// is made to the code host.
func (p Policy) Check(ctx context.Context, q store.Querier, orgID, account string) error {
	holder, found, err := Holder(ctx, q, account)
	switch {
	case err != nil || holder == orgID:
		return err
	case found:
		return p.ErrNotClaimed(account)
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

// Claim claims an unclaimed account for the organisation, unless only the
// operator may.
func (p Policy) Claim(ctx context.Context, tx *store.Tx, orgID, account string) error {
	if err := p.Check(ctx, tx, orgID, account); err != nil {
		return err
	}
	if err := Insert(ctx, tx, account, orgID); err != nil {
		return err
	}
	holder, _, err := Holder(ctx, tx, account)
	if err != nil || holder == orgID {
		return err
	}
	return p.ErrNotClaimed(account)
}

// ErrNotClaimed says how to get an account, but not which organisation has it.
// Where the operator assigns accounts, it does not reveal that one has it.
func (p Policy) ErrNotClaimed(account string) error {
	if p.OperatorOnly {
		return fault.New(fault.Conflict, "The account %[1]s is not this organisation's; the operator can give it to one with"+
			" `whetstone repohost allow ORG %[1]s`", account).WithCode("claim_required")
	}
	return fault.New(fault.Conflict, "The account %[1]s belongs to another organisation, or several have bound it; the operator can"+
		" decide with `whetstone repohost allow ORG %[1]s`", account)
}
