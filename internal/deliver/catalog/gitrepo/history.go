package gitrepo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog/marketplace"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/gittree"
)

// The history of a shelf is a log in the database: each commit is made once, by the
// replica that first sees a change, and is a child of the newest one. So a pull is
// always a fast-forward from the newest commit of before.
//
// What was withdrawn, deleted or hidden must not stay readable in older commits.
// These are then no longer served: the oldest one that is becomes the boundary, and a
// clone is shallow there. Who had the newest commit of before needs none of them.

const (
	// maxHistory is how many commits are served.
	maxHistory = 50
	// maxKnown is how many are recognised: a client with an older one must clone again.
	maxKnown = 1_000
	// maxSingle is how many changes that are seen at once get a commit each; older
	// ones share one.
	maxSingle = 16
	// maxTries is how often commits are made anew because of another replica.
	maxTries = 5
)

// A commit is one state of a marketplace.
type commit struct {
	number             int64
	hash, parent, tree gittree.Hash // the first one has the zero parent
	market             string
	message            string
	at                 time.Time
	revision           registry.Revision
}

func parse(text string) gittree.Hash {
	h, _ := gittree.ParseHash(text) // as it was written
	return h
}

// raw is the content of the commit's object.
func (c commit) raw() []byte {
	// The author is the same everywhere, or replicas would make different hashes.
	const author = "Whetstone <whetstone@localhost>"
	text := "tree " + c.tree.String() + "\n"
	if c.parent != (gittree.Hash{}) {
		text += "parent " + c.parent.String() + "\n"
	}
	return fmt.Appendf([]byte(text), "author %s %d +0000\ncommitter %s %d +0000\n\n%s\n", author, c.at.Unix(), author,
		c.at.Unix(), c.message)
}

// named computes the hash, which depends on all other fields.
func (c commit) named() commit {
	c.hash = gittree.Sum(gittree.Commit, c.raw())
	return c
}

// first is the commit that every history begins with: a marketplace without plugins.
func (m market) first() commit {
	c := commit{
		market: m.String(), message: "Begin the marketplace of " + m.owner, tree: m.put(hashOnly, nil),
		at: time.Unix(0, 0).UTC(),
	}
	return c.named()
}

// A shelf names the commits of a registry.Shelf in the database.
type shelf struct {
	registry.Shelf
	// "" for a shelf of an organisation that does not exist, which is never written.
	key   string
	orgID *string
}

// A repo is what can be fetched from a shelf. It is shared and immutable.
type repo struct {
	market  market
	commits []commit  // the newest first
	plugins []*plugin // of all these commits, by name
	// older are commits that were served before.
	older map[gittree.Hash]bool
}

func (r *repo) newest() commit { return r.commits[0] }

// boundary is the oldest commit.
func (r *repo) boundary() commit { return r.commits[len(r.commits)-1] }

// complete reports whether the boundary has no parent.
func (r *repo) complete() bool { return r.boundary().parent == gittree.Hash{} }

// at returns the plugins of a commit. The order by name stays, which trees rely on.
func (r *repo) at(number int64) []*plugin {
	return slices.DeleteFunc(slices.Clone(r.plugins), func(p *plugin) bool {
		return p.since > number || p.until != 0 && p.until <= number
	})
}

// size is about how many bytes it takes in memory.
func (r *repo) size() int64 {
	size := int64(50 * len(r.older))
	for _, p := range r.plugins {
		size += int64(600 + len(p.description) + len(p.entries[0]) + len(p.entries[1]) + len(p.entries[2]))
	}
	return size
}

// read returns what a shelf has now, and writes the commits that are missing.
func (s *Service) read(ctx context.Context, sh registry.Shelf) (_ *repo, err error) {
	defer fault.Wrap(&err, "git history of %q", sh.OrgName)
	for range maxTries {
		r, err := s.tryRead(ctx, sh)
		if !errors.Is(err, errOutdated) {
			return r, err
		}
	}
	return nil, fault.New(fault.Unavailable, "The catalog changes too quickly")
}

// errOutdated says that the shelf, or its history, has changed meanwhile.
var errOutdated = errors.New("outdated")

func (s *Service) tryRead(ctx context.Context, sh registry.Shelf) (*repo, error) {
	// Read before the shop: if the shelf changes in between, the revision is too
	// old, and the next request reads again.
	revision, err := s.Catalog.Registry.ShelfRevision(ctx, sh)
	if err != nil {
		return nil, err
	}
	shop, err := s.Marketplace.ReadShop(ctx, sh)
	if err != nil {
		return nil, err
	}
	at, err := s.shelf(ctx, sh)
	if err != nil {
		return nil, err
	}
	r, err := s.written(ctx, at, shop)
	if err != nil {
		return nil, err
	}
	// A shelf that never had a skill needs no log, and neither does an anonymous one.
	before, changes := r.newest(), r.changesTo(shop)
	var news []commit
	if at.key != "" && (len(changes) > 0 || before.market != r.market.String()) {
		// In memory first: the history is restricted as it will be once these are
		// written.
		news = r.commit(changes, revision)
	}
	if err := s.restrict(ctx, r, shop); err != nil {
		return nil, err
	}
	if news != nil {
		if err := s.write(ctx, at, addition{before.revision, news, changes, r.boundary().number}); err != nil {
			return nil, err
		}
	}
	older, err := olderCommits(ctx, s.Catalog.Registry.DB, at.key, r.boundary().number)
	r.older = map[gittree.Hash]bool{}
	for _, hash := range older {
		r.older[parse(hash)] = true
	}
	return r, err
}

// shelf returns the names of a shelf in the database. That of an organisation that
// does not exist has none. The id and not the name is in the key, so that renaming
// an organisation keeps its history.
func (s *Service) shelf(ctx context.Context, sh registry.Shelf) (shelf, error) {
	if sh.OrgName == "" {
		return shelf{Shelf: sh, key: "all"}, nil
	}
	org, err := auth.OrgNamed(ctx, s.Catalog.Registry.DB, sh.OrgName)
	if fault.Is(err, fault.NotFound) {
		return shelf{Shelf: sh}, nil
	}
	out := shelf{sh, org.ID + "/public", &org.ID}
	switch {
	case sh.Sets != "":
		// By the ids of the sets, whatever is in them: a pull after a change is a fast-forward.
		sum := sha256.Sum256([]byte(sh.Sets))
		out.key = org.ID + "/sets/" + hex.EncodeToString(sum[:16])
	case sh.Private:
		out.key = org.ID + "/private"
	}
	return out, err
}

// written returns the history that is in the database.
func (s *Service) written(ctx context.Context, sh shelf, shop *marketplace.Shop) (r *repo, err error) {
	db := s.Catalog.Registry.DB
	r = &repo{market: market{shop.Name, shop.Owner, shop.Bundle}}
	if r.commits, err = newestCommits(ctx, db, sh.key, maxHistory); err != nil {
		return nil, err
	}
	if len(r.commits) == 0 {
		r.commits = []commit{r.market.first()}
		return r, nil
	}
	r.plugins, err = pluginsSince(ctx, db, sh.key, r.boundary().number)
	// Plugins that the newest commit has are on the shelf, and need no check.
	for _, p := range r.plugins {
		p.prepare()
	}
	return r, err
}

// restrict removes the commits that may no longer be read, or cannot be made again.
func (s *Service) restrict(ctx context.Context, r *repo, shop *marketplace.Shop) error {
	onShelf, before := map[string]bool{}, []string{}
	for _, p := range shop.Plugins {
		onShelf[p.ID] = true
	}
	for _, p := range r.plugins {
		if p.until != 0 {
			before = append(before, p.versionID)
		}
	}
	versions, err := registry.VersionsByID(ctx, s.Catalog.Registry.DB, before)
	if err != nil {
		return err
	}
	from := r.newest().number - maxHistory + 1
	for _, p := range r.plugins {
		// Neither the version nor its entry may be gone: either is enough to hide
		// it.
		v := versions[p.versionID]
		if p.until != 0 && (v.State != registry.Published || !onShelf[v.EntryID]) {
			from = max(from, p.until)
		}
	}
	for _, c := range r.commits {
		// The names are in the files, and those of before are not stored.
		if c.market != r.newest().market {
			from = max(from, c.number+1)
		}
	}
	r.commits = slices.DeleteFunc(r.commits, func(c commit) bool { return c.number < from })
	r.plugins = slices.DeleteFunc(r.plugins, func(p *plugin) bool { return p.until != 0 && p.until <= from })
	return nil
}

// A change is a plugin that is new, different, or gone.
type change struct {
	before, after *plugin
	at            time.Time
}

func (c change) String() string {
	switch {
	case c.after == nil:
		return "Remove " + c.before.name
	case c.before == nil:
		return "Add " + c.after.name + " " + c.after.version
	}
	return "Change " + c.after.name + " to " + c.after.version
}

// changesTo compares the newest commit with what a marketplace offers, the oldest
// change first.
func (r *repo) changesTo(shop *marketplace.Shop) (changes []change) {
	have := map[string]*plugin{}
	for _, p := range r.at(r.newest().number) {
		have[p.name] = p
	}
	for _, offer := range shop.Plugins {
		// The backfill has not computed the tree of an old version yet.
		if offer.Tree == "" {
			continue
		}
		p := &plugin{
			name: offer.Name, ownerID: offer.OrgID, entryID: offer.ID, versionID: offer.Current.ID,
			version:     cmp.Or(offer.Version, offer.SHA256[:12]), // as Claude Code numbers the zip
			description: offer.Description, zip: offer.SHA256, tree: parse(offer.Tree),
		}
		before := have[p.name]
		delete(have, p.name)
		if before == nil || !before.equal(p) {
			changes = append(changes, change{before, p, offer.UpdatedAt})
		}
	}
	for _, p := range have {
		// When it was removed is not known.
		changes = append(changes, change{before: p, at: store.Now()})
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.String(), b.String()))
	})
	return changes
}

// equal reports whether two plugins make the same files of the same version.
func (p *plugin) equal(other *plugin) bool {
	return p.versionID == other.versionID && p.version == other.version && p.description == other.description &&
		p.zip == other.zip && p.tree == other.tree
}

// commit adds commits for changes, and returns them.
func (r *repo) commit(changes []change, revision registry.Revision) (news []commit) {
	// The first commit is made by every replica alike, and written with the next
	// one.
	if r.newest().number == 0 {
		news = append(news, r.newest())
	}
	for _, group := range r.groups(changes) {
		last := r.newest()
		c := commit{
			number: last.number + 1, parent: last.hash, market: r.market.String(), at: last.at, message: "Rename the marketplace",
			revision: revision,
		}
		for _, change := range group {
			r.apply(change, c.number)
			// Never before its parent: git's walks rely on times that do not run
			// backwards.
			c.at = slices.MaxFunc([]time.Time{c.at, change.at.UTC().Truncate(time.Second)}, time.Time.Compare)
			c.message = change.String()
		}
		if len(group) > 1 {
			c.message = fmt.Sprintf("Change %d skills", len(group))
		}
		c.tree = r.market.put(hashOnly, r.at(c.number))
		c = c.named()
		r.commits, news = slices.Insert(r.commits, 0, c), append(news, c)
	}
	return news
}

// groups are the changes of one commit each. The first commit with skills and a
// renaming are one each; everything that piled up while nobody fetched should not
// push the history out.
func (r *repo) groups(changes []change) [][]change {
	if r.newest().number == 0 || r.newest().market != r.market.String() {
		return [][]change{changes}
	}
	together := max(0, len(changes)-maxSingle)
	groups := [][]change{}
	if together > 0 {
		groups = append(groups, changes[:together])
	}
	for _, c := range changes[together:] {
		groups = append(groups, []change{c})
	}
	return groups
}

// apply changes the plugins for a commit; they stay sorted by name, then by since.
func (r *repo) apply(c change, number int64) {
	if c.before != nil {
		c.before.until = number
	}
	if c.after != nil {
		c.after.since = number
		c.after.prepare()
		at, _ := slices.BinarySearchFunc(r.plugins, c.after, func(a, b *plugin) int {
			return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.since, b.since))
		})
		r.plugins = slices.Insert(r.plugins, at, c.after)
	}
}

// An addition are new commits of a shelf.
type addition struct {
	before  registry.Revision // of the newest commit until now
	commits []commit
	changes []change
	from    int64 // the oldest commit that is still served
}

// write adds commits to the log, and forgets those that are no longer served. It
// returns errOutdated if another replica was faster, or saw a newer shelf.
func (s *Service) write(ctx context.Context, sh shelf, add addition) error {
	ended, added := map[int64][]string{}, []*plugin{}
	for _, c := range add.changes {
		if c.before != nil {
			ended[c.before.until] = append(ended[c.before.until], c.before.name)
		}
		if c.after != nil {
			added = append(added, c.after)
		}
	}
	return s.Catalog.Registry.DB.InTx(ctx, func(tx *store.Tx) error {
		saw := add.commits[len(add.commits)-1].revision
		now, err := registry.RevisionOf(ctx, tx, sh.Shelf)
		if err != nil {
			return err
		}
		// The shelf that was read is no newer than the last commit: another replica
		// has seen more.
		if saw != now && (saw.Changes <= add.before.Changes || saw.Orgs < add.before.Orgs) {
			return errOutdated
		}
		written, err := insertCommits(ctx, tx, sh, add.commits)
		if err != nil {
			return err
		}
		if !written {
			return errOutdated
		}
		for number, names := range ended {
			if err := endPlugins(ctx, tx, sh.key, names, number); err != nil {
				return err
			}
		}
		if err := insertPlugins(ctx, tx, sh, added); err != nil {
			return err
		}
		return forgetBefore(ctx, tx, sh.key, add.from, add.commits[0].number-maxKnown)
	})
}
