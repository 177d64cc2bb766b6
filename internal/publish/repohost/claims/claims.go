// Package claims assigns accounts on the code host to organisations, so that
// organisations sharing a server can't read each other's private repositories. It owns
// the table repohost_claims.
package claims

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Claim assigns an account on the code host to one organisation, and with it every
// repository, delivery and status of the account. Without claims, an organisation could
// read another's private repositories through the server's own access. Logins are
// compared by host.AccountKey. Claims don't name a provider: a server that moves to
// another code host keeps them.
type Claim struct {
	Account string // in lower case
	// OrgID is "" for a contested account: several organisations had bound it before
	// claims existed, and the operator hasn't decided yet.
	OrgID     string
	ClaimedAt time.Time
	// BoundBy are the organisations that have bound an installation of the account.
	BoundBy []string
}

// Allow assigns an account to an organisation, on behalf of the operator. An account that
// another organisation holds is fault.Conflict, unless move is true: then the other's
// installations of it become inactive. A group on GitLab has what is below it, so none
// above or below may belong to another organisation.
func Allow(ctx context.Context, db *store.DB, orgID, account string, move bool) (err error) {
	defer fault.Wrap(&err, "allow %s", account)
	if err := host.GitLab.CheckAccountLogin(account); err != nil { // which allows all that the others do
		return err
	}
	return db.InTx(ctx, func(tx *store.Tx) error {
		holder, _, err := Holder(ctx, tx, account)
		if err != nil || holder == orgID {
			return err
		}
		if holder != "" && !move {
			return fault.New(fault.Conflict,
				"The account %s belongs to another organisation; `whetstone repohost claims` names it,"+

					" and --move takes the account from it", account)
		}
		_, others, err := around(ctx, tx, orgID, account)
		if err != nil {
			return err
		}
		if others {
			return fault.New(fault.Conflict, "A group above or below %s belongs to another organisation; `whetstone repohost claims`"+
				" names it, and `whetstone repohost release` takes it back", account)
		}
		if err := moveClaim(ctx, tx, account, holder, orgID); err != nil {
			return err
		}
		if holder != "" {
			if err := recordAudit(ctx, tx, holder, account, "repohost.account.release"); err != nil {
				return err
			}
		}
		return recordAudit(ctx, tx, orgID, account, "repohost.account.allow")
	})
}

// Release deletes the claim on an account, on behalf of the operator. The former holder's
// installations of it become inactive.
func Release(ctx context.Context, db *store.DB, account string) (err error) {
	defer fault.Wrap(&err, "release %s", account)
	return db.InTx(ctx, func(tx *store.Tx) error {
		holder, err := deleteClaim(ctx, tx, account)
		if err != nil || holder == "" {
			return err
		}
		return recordAudit(ctx, tx, holder, account, "repohost.account.release")
	})
}

// recordAudit writes to the log of the organisation that gains or loses the account.
func recordAudit(ctx context.Context, tx *store.Tx, orgID, account, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: orgID, Action: action, Target: audit.Target{Kind: "account", ID: host.AccountKey(account), Name: account},
	})
}
