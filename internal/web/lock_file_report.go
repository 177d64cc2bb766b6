package web

import (
	"context"
	"io"
	"path"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/local/lockfiles"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/resolve"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// LockChecker compares uploaded lock files with the registry. PublicURL tells which of
// their addresses are this server's.
type LockChecker struct {
	Registry  *resolve.Service
	PublicURL string
}

// A lockReport is a lock file and what the registry has of it.
type lockReport struct {
	File    string
	Client  lockfiles.Client
	Secrets []string // kinds of credentials in its addresses
	Rows    []lockRow
	Drift   bool // a skill is behind, withdrawn or modified
}

// A lockRow is a skill of a lock file.
type lockRow struct {
	lockfiles.Item
	resolve.Result
	Installed string // the matched version, else the one of the lock file
}

// check reads a lock file and resolves its skills in batches. The configuration of
// Codex is refused: it has keys of other programs, and no versions. Nothing of the
// file is stored: it may name private skills of others.
func (c LockChecker) check(ctx context.Context, orgID, name string, content *io.SectionReader) (r lockReport, err error) {
	if lockfiles.ClientOf(name) == lockfiles.Codex {
		return r, fault.Invalid("file", "config.toml may have keys of yours in it; check it with whetstone status --lock ~/.codex/config.toml")
	}
	// One byte more than Parse accepts, so that Parse can refuse a larger file.
	raw, err := io.ReadAll(io.LimitReader(content, lockfiles.MaxSize+1))
	if err != nil {
		return r, err
	}
	f, err := lockfiles.Parse(name, raw, lockfiles.Near{})
	if err != nil {
		return r, err
	}
	r = lockReport{File: path.Base(name), Client: f.Client, Secrets: f.Secrets}
	// A lock file may have more skills than one query takes.
	for items := f.Items; len(items) > 0; {
		n := min(len(items), resolve.MaxItems)
		asked := make([]resolve.Item, n)
		for i, item := range items[:n] {
			asked[i] = c.item(item)
		}
		results, err := c.Registry.Resolve(ctx, orgID, asked)
		if err != nil {
			return r, err
		}
		for i, result := range results {
			row := lockRow{Item: items[i], Result: result, Installed: result.Version}
			if row.Installed == "" {
				row.Installed = items[i].Version
			}
			r.Drift = r.Drift || result.State != resolve.UpToDate && result.State != resolve.Unknown
			r.Rows = append(r.Rows, row)
		}
		items = items[n:]
	}
	return r, nil
}

// item converts an item of a lock file to a query of the registry. Texts of a lock
// file may be longer than any name, and are truncated by Fit.
func (c LockChecker) item(i lockfiles.Item) resolve.Item {
	item := resolve.Item{
		Name: lockfiles.Fit(i.Name), Organisation: lockfiles.Fit(i.Organisation), Version: lockfiles.Fit(i.Version),
		EntryID: lockfiles.Fit(i.EntryID), Here: i.FromHere(c.PublicURL),
	}
	for _, h := range i.Hashes {
		item.Hashes = append(item.Hashes, treehash.Hash{Kind: treehash.Kind(h.Kind), Hex: h.Hex})
	}
	return item
}
