package repohost

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// A Claim says which organisation an account of the code host belongs to, and
// with it every repository, delivery and status. Logins are compared as
// host.AccountKey does, and a claim holds whichever provider is set: a server
// that moves from one code host to another keeps its accounts.
type Claim struct {
	Account string // in lower case
	// OrgID is "" for a contested account: several organisations had bound it
	// before there were claims, and the operator has not decided yet.
	OrgID     string
	ClaimedAt time.Time
	// BoundBy are the organisations that have bound the account.
	BoundBy []string
}

// Claims lists all claims by account, for the operator.
func (s *Service) Claims(ctx context.Context) ([]Claim, error) { return allClaims(ctx, s.DB) }

// Allow gives an account to an organisation, for the operator. One that
// another organisation has is a Conflict, unless it is to be moved: then the
// other's installations of it are suspended.
func (s *Service) Allow(ctx context.Context, orgID, account string, move bool) (err error) {
	defer fault.Wrap(&err, "allow %s", account)
	if err := host.CheckAccountLogin(account); err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		holder, _, err := holderOf(ctx, tx, account)
		if err != nil || holder == orgID {
			return err
		}
		if holder != "" && !move {
			return fault.New(fault.Conflict, "The account %s belongs to another organisation; `whetstone repohost claims` names it,"+
				" and --move takes the account from it", account)
		}
		if err := setClaim(ctx, tx, account, holder, orgID); err != nil {
			return err
		}
		if holder != "" {
			if err := recordAccount(ctx, tx, holder, account, "repohost.account.release"); err != nil {
				return err
			}
		}
		return recordAccount(ctx, tx, orgID, account, "repohost.account.allow")
	})
}

// Release ends the claim on an account, for the operator. What its organisation
// has bound of it is suspended; the account is free.
func (s *Service) Release(ctx context.Context, account string) (err error) {
	defer fault.Wrap(&err, "release %s", account)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		holder, err := deleteClaim(ctx, tx, account)
		if err != nil || holder == "" {
			return err
		}
		return recordAccount(ctx, tx, holder, account, "repohost.account.release")
	})
}

// recordAccount writes down what the operator did with an account.
func recordAccount(ctx context.Context, tx *store.Tx, orgID, account, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: orgID, Action: action, Target: audit.Target{Kind: "account", ID: host.AccountKey(account), Name: account},
	})
}

// mayBind refuses an account that the organisation cannot have, before the
// code host is asked anything about it.
func (s *Service) mayBind(ctx context.Context, orgID, account string) error {
	holder, found, err := holderOf(ctx, s.DB, account)
	if err != nil || holder == orgID || !found && !s.OperatorClaims {
		return err
	}
	return s.errForeign(account)
}

// claim makes sure that an account is the organisation's. Of several that want
// it at once the database lets one have it.
func (s *Service) claim(ctx context.Context, tx *store.Tx, orgID, account string) error {
	if !s.OperatorClaims {
		if err := insertClaim(ctx, tx, account, orgID); err != nil {
			return err
		}
	}
	holder, _, err := holderOf(ctx, tx, account)
	if err != nil || holder == orgID {
		return err
	}
	return s.errForeign(account)
}

// errForeign says how to get an account, and not whose it is. Where the
// operator decides, it does not even say whether it is somebody's.
func (s *Service) errForeign(account string) error {
	if s.OperatorClaims {
		return fault.New(fault.Conflict, "The account %[1]s is not this organisation's; the operator can give it to one with"+
			" `whetstone repohost allow ORG %[1]s`", account)
	}
	return fault.New(fault.Conflict, "The account %[1]s belongs to another organisation, or several have bound it; the operator can"+
		" decide with `whetstone repohost allow ORG %[1]s`", account)
}
