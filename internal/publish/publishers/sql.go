package publishers

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

const columns = `p.id, p.org_id, p.entry_id, e.name, p.provider, p.issuer, p.repository, p.ref, p.workflow, p.environment,
	p.repository_id, p.owner_id, p.created_by, p.created_at, p.last_used_at`

func scan(row store.Row) (p Publisher, err error) {
	err = row.Scan(&p.ID, &p.OrgID, &p.EntryID, &p.EntryName, &p.Provider, &p.Issuer, &p.Repository, &p.Ref, &p.Workflow,
		&p.Environment, &p.RepositoryID, &p.OwnerID, &p.CreatedBy, store.Time(&p.CreatedAt), store.NullTime(&p.LastUsedAt))
	return p, err
}

const fromPublishers = ` FROM trusted_publishers p JOIN registry_entries e ON e.id = p.entry_id `

func insertPublisher(ctx context.Context, q store.Querier, p Publisher) error {
	_, err := q.Exec(ctx, `
		INSERT INTO trusted_publishers (id, org_id, entry_id, provider, issuer, repository, repository_key, ref, workflow,
			environment, repository_id, owner_id, created_by, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		p.ID, p.OrgID, p.EntryID, p.Provider, p.Issuer, p.Repository, strings.ToLower(p.Repository), p.Ref, p.Workflow,
		p.Environment, p.RepositoryID, p.OwnerID, p.CreatedBy, store.Micros(p.CreatedAt))
	return err
}

// countPublishers returns both totals in one query; entryID may be "".
func countPublishers(ctx context.Context, q store.Querier, orgID, entryID string) (all, ofEntry int, err error) {
	rows, err := q.Query(ctx, `
		SELECT COUNT(*), COUNT(*) FILTER (WHERE entry_id = $2) FROM trusted_publishers WHERE org_id = $1`, orgID, entryID)
	_, err = store.One(rows, err, "Publishers", func(row store.Row) (struct{}, error) {
		return struct{}{}, row.Scan(&all, &ofEntry)
	})
	return all, ofEntry, err
}

var sorts = store.Sorting{
	"created_at": "p.created_at", "repository": "p.repository_key", "issuer": "p.issuer", "ref": "p.ref",
	"workflow":     "p.workflow",
	"last_used_at": "p.last_used_at",
}

func publishersOfOrg(ctx context.Context, q store.Querier, orgID, entryID string, page store.Page) ([]Publisher, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+fromPublishers+`
		WHERE p.org_id = $1 AND ($2 = '' OR p.entry_id = $2)`+
		sorts.By(page.Sort, `p.id DESC`)+` LIMIT $3 OFFSET $4`, orgID, entryID, page.Limit, page.Offset)
	return store.All(rows, err, scan)
}

// publisherByID locks only the row of the rule ("OF p"): locking the entry as well would
// make exchanges wait for pushes.
func publisherByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Publisher, error) {
	if lock != "" {
		lock += " OF p"
	}
	rows, err := q.Query(ctx, `SELECT `+columns+fromPublishers+`WHERE p.org_id = $1 AND p.id = $2`+lock, orgID, id)
	return store.One(rows, err, "Trusted publisher", scan)
}

func deletePublisher(ctx context.Context, q store.Querier, p Publisher) error {
	_, err := q.Exec(ctx, `DELETE FROM trusted_publishers WHERE org_id = $1 AND id = $2`, p.OrgID, p.ID)
	return err
}

// usePublisher pins the code host's ids if this is the first run, and notes the use.
func usePublisher(ctx context.Context, q store.Querier, p Publisher, run Run) error {
	_, err := q.Exec(ctx, `
		UPDATE trusted_publishers SET last_used_at = $2,
			repository_id = CASE WHEN repository_id = '' THEN $3 ELSE repository_id END,
			owner_id = CASE WHEN owner_id = '' THEN $4 ELSE owner_id END
		WHERE id = $1`, p.ID, store.Micros(store.Now()), run.RepositoryID, run.OwnerID)
	return err
}

// providersOfIssuer returns the providers that rules declare for an issuer, in the order
// of providers(); none if no rule names the issuer.
func providersOfIssuer(ctx context.Context, q store.Querier, issuer string) (found []Provider, err error) {
	var all [3]bool
	rows, err := q.Query(ctx, `
		SELECT EXISTS (SELECT 1 FROM trusted_publishers WHERE issuer = $1 AND provider = $2),
			EXISTS (SELECT 1 FROM trusted_publishers WHERE issuer = $1 AND provider = $3),
			EXISTS (SELECT 1 FROM trusted_publishers WHERE issuer = $1 AND provider = $4)`, issuer, GitHub, GitLab, Gitea)
	_, err = store.One(rows, err, "Issuer", func(row store.Row) (struct{}, error) {
		return struct{}{}, row.Scan(&all[0], &all[1], &all[2])
	})
	for i, p := range providers() {
		if all[i] {
			found = append(found, p)
		}
	}
	return found, err
}

// publishersOfRun returns the rules for the run's issuer and repository, limited to the
// destination; an empty field of the destination doesn't restrict.
func publishersOfRun(ctx context.Context, q store.Querier, run Run, to Destination) ([]Publisher, error) {
	rows, err := q.Query(ctx, `
		SELECT `+columns+fromPublishers+`JOIN organisations o ON o.id = p.org_id
		WHERE p.issuer = $1 AND p.repository_key = $2 AND o.deleted_at IS NULL
			AND ($3 = '' OR p.entry_id = $3) AND ($4 = '' OR o.name = $4) AND ($5 = '' OR e.name = $5)
		ORDER BY p.id LIMIT $6`, run.Issuer, strings.ToLower(run.Repository), to.EntryID, to.Organisation, to.Name, maxPublishers)
	return store.All(rows, err, scan)
}

// An exchange is a redeemed token and the key that was issued for it.
type exchange struct {
	token       string
	orgID       string
	publisherID string
	keyID       string
	run         Run
	expiresAt   time.Time
}

// insertExchange reports false if the token was redeemed before, on any replica: the
// primary key decides.
func insertExchange(ctx context.Context, tx *store.Tx, x exchange) (bool, error) {
	run, err := json.Marshal(x.run)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, `
		INSERT INTO trusted_exchanges (token, org_id, publisher_id, key_id, run, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (token) DO NOTHING`, x.token, x.orgID, x.publisherID, x.keyID, string(run), store.Micros(x.expiresAt))
	return n == 1, err
}

// exchangeOfKey finds the run that a key was issued to. Only the fields that Admitted
// needs are set.
func exchangeOfKey(ctx context.Context, q store.Querier, orgID, keyID string) (exchange, error) {
	rows, err := q.Query(ctx, `
		SELECT publisher_id, run FROM trusted_exchanges WHERE org_id = $1 AND key_id = $2`, orgID, keyID)
	return store.One(rows, err, "Workflow run", func(row store.Row) (x exchange, err error) {
		var run string
		if err := row.Scan(&x.publisherID, &run); err != nil {
			return x, err
		}
		return x, json.Unmarshal([]byte(run), &x.run)
	})
}

// keysOfPublisher may return keys that have expired; revoking them is a no-op.
func keysOfPublisher(ctx context.Context, q store.Querier, p Publisher) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT key_id FROM trusted_exchanges WHERE org_id = $1 AND publisher_id = $2`, p.OrgID, p.ID)
	return store.All(rows, err, store.Value[string])
}

func deleteExpiredExchanges(ctx context.Context, q store.Querier, now time.Time) error {
	_, err := q.Exec(ctx, `DELETE FROM trusted_exchanges WHERE expires_at < $1`, store.Micros(now))
	return err
}

// insertVersionPublisher copies the run into columns, so that provenance outlives the
// rule and the redeemed token.
func insertVersionPublisher(ctx context.Context, q store.Querier, v registry.Version, x exchange) error {
	r := x.run
	_, err := q.Exec(ctx, `
		INSERT INTO version_publishers (version_id, org_id, publisher_id, provider, issuer, repository, repository_id, owner_id,
			ref, commit_sha, workflow_ref, workflow_sha, environment, event, run_id, run_attempt, run_url, actor,
				runner, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`,
		v.ID, v.OrgID, x.publisherID, r.Provider, r.Issuer, r.Repository, r.RepositoryID, r.OwnerID,
		r.Ref, r.Commit, r.WorkflowRef, r.WorkflowSHA, r.Environment, r.Event, r.RunID, r.RunAttempt, r.RunURL, r.Actor, r.Runner,
		store.Micros(store.Now()))
	return err
}

// Provenances returns the runs that published versions, by the version's id. Versions pushed with
// an ordinary key are missing.
func Provenances(ctx context.Context, q store.Querier, versionIDs []string) (map[string]Provenance, error) {
	in, list := q.Dialect().In("$1", versionIDs)
	rows, err := q.Query(ctx, `
		SELECT p.version_id, p.org_id, p.publisher_id, p.provider, p.issuer, p.repository, p.repository_id, p.owner_id,
			p.ref, p.commit_sha,
			p.workflow_ref, p.workflow_sha, p.environment, p.event, p.run_id, p.run_attempt, p.run_url, p.actor,
				p.runner, p.created_at
		FROM version_publishers p WHERE p.version_id`+in, list)
	found := map[string]Provenance{}
	err = store.Each(rows, err, func(row store.Row) error {
		var versionID string
		var p Provenance
		r := &p.Run
		err := row.Scan(&versionID, &p.OrgID, &p.PublisherID, &r.Provider, &r.Issuer, &r.Repository, &r.RepositoryID,
			&r.OwnerID, &r.Ref, &r.Commit,
			&r.WorkflowRef, &r.WorkflowSHA, &r.Environment, &r.Event, &r.RunID, &r.RunAttempt, &r.RunURL, &r.Actor, &r.Runner,
			store.Time(&p.At))
		found[versionID] = p
		return err
	})
	return found, err
}
