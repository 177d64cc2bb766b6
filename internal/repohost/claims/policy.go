package claims

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Policy says how accounts get claimed.
type Policy struct {
	// OperatorOnly lets only the operator assign accounts to organisations.
	// Otherwise the first organisation that binds an unclaimed account gets it.
	OperatorOnly bool
}

// Check refuses an account that the organisation cannot claim, before any request
// is made to the code host.
func (p Policy) Check(ctx context.Context, q store.Querier, orgID, account string) error {
	holder, found, err := Holder(ctx, q, account)
	if err != nil || holder == orgID || !found && !p.OperatorOnly {
		return err
	}
	return p.ErrNotClaimed(account)
}

// Claim claims an unclaimed account for the organisation, unless only the
// operator may.
func (p Policy) Claim(ctx context.Context, tx *store.Tx, orgID, account string) error {
	if !p.OperatorOnly {
		if err := Insert(ctx, tx, account, orgID); err != nil {
			return err
		}
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
			" `whetstone repohost allow ORG %[1]s`", account)
	}
	return fault.New(fault.Conflict, "The account %[1]s belongs to another organisation, or several have bound it; the operator can"+
		" decide with `whetstone repohost allow ORG %[1]s`", account)
}
