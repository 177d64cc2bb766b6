package gitrepo

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// newestCommits returns commits of a shelf that are still served, the newest first.
// A commit without a message is no longer served, see forgetBefore.
func newestCommits(ctx context.Context, q store.Querier, shelf string, limit int) ([]commit, error) {
	rows, err := q.Query(ctx, `
		SELECT number, hash, parent, tree, market, message, committed_at, orgs, changes FROM catalog_commits
		WHERE shelf = $1 AND message <> '' ORDER BY number DESC LIMIT $2`, shelf, limit)
	return store.All(rows, err, func(row store.Row) (c commit, err error) {
		var hash, parent, tree string
		var at int64
		err = row.Scan(&c.number, &hash, &parent, &tree, &c.market, &c.message, &at, &c.revision.Orgs, &c.revision.Changes)
		c.hash, c.parent, c.tree, c.at = parse(hash), parse(parent), parse(tree), time.Unix(at, 0).UTC()
		return c, err
	})
}

// olderCommits returns the names of commits before a number. Their names suffice to
// tell a client with one of them what to do.
func olderCommits(ctx context.Context, q store.Querier, shelf string, number int64) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT hash FROM catalog_commits WHERE shelf = $1 AND number < $2`, shelf, number)
	return store.All(rows, err, store.Value[string])
}

// pluginsSince returns the plugins that commits from that number on have. A plugin
// is a row for a range of commits, [since, until), not one for each commit.
func pluginsSince(ctx context.Context, q store.Querier, shelf string, number int64) ([]*plugin, error) {
	rows, err := q.Query(ctx, `
		SELECT name, since, COALESCE(until, 0), owner_id, entry_id, version_id, version, description, zip, tree
		FROM catalog_commit_plugins WHERE shelf = $1 AND (until IS NULL OR until > $2) ORDER BY name, since`, shelf, number)
	return store.All(rows, err, func(row store.Row) (*plugin, error) {
		var p plugin
		var tree string
		err := row.Scan(&p.name, &p.since, &p.until, &p.ownerID, &p.entryID, &p.versionID, &p.version,
			&p.description, &p.zip, &tree)
		p.tree = parse(tree)
		return &p, err
	})
}

// insertCommits reports false if another replica has written commits with these
// numbers. The key is the shelf and the number: of two replicas one writes all of
// them, the other none.
func insertCommits(ctx context.Context, tx *store.Tx, sh shelf, commits []commit) (bool, error) {
	n := len(commits)
	shelves, orgs, numbers, at := make([]string, n), make([]*string, n), make([]int64, n), make([]int64, n)
	hashes, parents, trees := make([]string, n), make([]string, n), make([]string, n)
	markets, messages, orgCounts, changes := make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)
	for i, c := range commits {
		shelves[i], orgs[i], numbers[i], at[i] = sh.key, sh.orgID, c.number, c.at.Unix()
		hashes[i], trees[i], markets[i], messages[i] = c.hash.String(), c.tree.String(), c.market, c.message
		// The first commit has no parent, which is stored as "".
		if c.number > 0 {
			parents[i] = c.parent.String()
		}
		orgCounts[i], changes[i] = c.revision.Orgs, c.revision.Changes
	}
	written, err := store.Bulk{Table: "catalog_commits", OnConflict: "ON CONFLICT DO NOTHING", Columns: []store.Column{
		store.Col("shelf", shelves), store.Col("org_id", orgs), store.Col("number", numbers), store.Col("hash", hashes),
		store.Col("parent", parents), store.Col("tree", trees), store.Col("market", markets), store.Col("message", messages),
		store.Col("committed_at", at), store.Col("orgs", orgCounts), store.Col("changes", changes),
	}}.Insert(ctx, tx)
	return written == int64(n), err
}

// endPlugins says that a commit no longer has plugins like before. It precedes
// insertPlugins, whose rows of the same names have no end yet.
func endPlugins(ctx context.Context, tx *store.Tx, shelf string, names []string, number int64) error {
	in, list := tx.Dialect().In("$3", names)
	_, err := tx.Exec(ctx, `
		UPDATE catalog_commit_plugins SET until = $2 WHERE shelf = $1 AND until IS NULL AND name`+in, shelf, number, list)
	return err
}

// insertPlugins adds plugins that commits have from now on.
func insertPlugins(ctx context.Context, tx *store.Tx, sh shelf, plugins []*plugin) error {
	n := len(plugins)
	if n == 0 {
		return nil
	}
	shelves, orgs, since := make([]string, n), make([]*string, n), make([]int64, n)
	until, texts := make([]*int64, n), make([][]string, 8)
	for i, p := range plugins {
		shelves[i], orgs[i], since[i] = sh.key, sh.orgID, p.since
		if p.until > 0 {
			until[i] = &p.until
		}
		for j, text := range []string{
			p.name, p.ownerID, p.entryID, p.versionID, p.version, p.description, p.zip,
			p.tree.String(),
		} {
			texts[j] = append(texts[j], text)
		}
	}
	_, err := store.Bulk{Table: "catalog_commit_plugins", Columns: []store.Column{
		store.Col("shelf", shelves), store.Col("org_id", orgs), store.Col("since", since), store.Col("until", until),
		store.Col("name", texts[0]), store.Col("owner_id", texts[1]), store.Col("entry_id", texts[2]),
		store.Col("version_id", texts[3]), store.Col("version", texts[4]), store.Col("description", texts[5]),
		store.Col("zip", texts[6]), store.Col("tree", texts[7]),
	}}.Insert(ctx, tx)
	return err
}

// forgetBefore deletes what commits before a number have and say, and all of those
// before another one. The row of a forgotten commit stays as a tombstone for a
// while, so that its holders get an explanation.
func forgetBefore(ctx context.Context, tx *store.Tx, shelf string, number, oldest int64) error {
	if _, err := tx.Exec(ctx, `DELETE FROM catalog_commits WHERE shelf = $1 AND number < $2`, shelf, oldest); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE catalog_commits SET message = '' WHERE shelf = $1 AND number < $2
		AND message <> ''`, shelf, number)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `DELETE FROM catalog_commit_plugins WHERE shelf = $1 AND until <= $2`, shelf, number)
	return err
}

// hasCommit reports whether a commit of the shelf after that number has this name.
func hasCommit(ctx context.Context, q store.Querier, shelf, hash string, after int64) (bool, error) {
	n, err := store.Count(ctx, q, `
		FROM catalog_commits WHERE shelf = $1 AND number > $2 AND hash = $3`, shelf, after, hash)
	return n > 0, err
}
