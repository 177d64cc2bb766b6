package apply

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// putOutcome stores a new outcome in place of one that ended. Each proposal has one row at most.
func putOutcome(ctx context.Context, tx *store.Tx, p proposals.Proposal, o proposals.Outcome) error {
	if _, err := tx.Exec(ctx, `DELETE FROM proposal_outcomes WHERE org_id = $1 AND proposal_id = $2`, p.OrgID, p.ID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO proposal_outcomes (proposal_id, org_id, kind, state, message, entry_id, version, version_id,
			connection_id, branch,
			commit_sha, number, url, applied_by, created_at, updated_at)
		VALUES ($1, $2, $3, $4, '', $5, $6, '', $7, $8, '', 0, '', $9, $10, $10)`,
		p.ID, p.OrgID, o.Kind, o.State, o.EntryID, o.Version, o.ConnectionID, o.Branch, o.AppliedBy, store.Micros(o.CreatedAt))
	return err
}

// updateOutcome writes what may change; the kind, the person and the time of creation never do.
func updateOutcome(ctx context.Context, tx *store.Tx, p proposals.Proposal, o proposals.Outcome) error {
	_, err := tx.Exec(ctx, `
		UPDATE proposal_outcomes SET state = $3, message = $4, version = $5, version_id = $6, commit_sha = $7,
			number = $8, url = $9,
			updated_at = $10
		WHERE org_id = $1 AND proposal_id = $2`,
		p.OrgID, p.ID, o.State, o.Message, o.Version, o.VersionID, o.Commit, o.Number, o.URL, store.Micros(store.Now()))
	return err
}

// A key names a proposal with an outcome.
type key struct{ orgID, id string }

func scanKey(row store.Row) (k key, err error) {
	err = row.Scan(&k.orgID, &k.id)
	return k, err
}

// outcomesOfEntry returns the proposals that became versions of an entry.
func outcomesOfEntry(ctx context.Context, q store.Querier, entryID string) ([]key, error) {
	rows, err := q.Query(ctx, `
		SELECT org_id, proposal_id FROM proposal_outcomes WHERE entry_id = $1 AND entry_id <> '' ORDER BY proposal_id`, entryID)
	return store.All(rows, err, scanKey)
}

func outcomesOfPull(ctx context.Context, q store.Querier, connectionID string, number int64) ([]key, error) {
	rows, err := q.Query(ctx, `
		SELECT org_id, proposal_id FROM proposal_outcomes
		WHERE connection_id = $1 AND connection_id <> '' AND number = $2 ORDER BY proposal_id`, connectionID, number)
	return store.All(rows, err, scanKey)
}

// unfinished returns the proposals whose job has not done its work, and those whose
// end is not known: merged ones wait for their version until they are too old. It reads all
// organisations, as it's called by the scheduled job.
func unfinished(ctx context.Context, q store.Querier, oldest time.Time) (queued, open []key, err error) {
	rows, err := q.Query(ctx, `SELECT org_id, proposal_id FROM proposal_outcomes WHERE state = 'queued' ORDER BY proposal_id`)
	if queued, err = store.All(rows, err, scanKey); err != nil {
		return nil, nil, err
	}
	rows, err = q.Query(ctx, `
		SELECT org_id, proposal_id FROM proposal_outcomes
		WHERE state IN ('open', 'candidate') OR state = 'merged' AND version_id = '' AND updated_at > $1
		ORDER BY proposal_id`, store.Micros(oldest))
	open, err = store.All(rows, err, scanKey)
	return queued, open, err
}
