// Package resolve identifies what clients have installed, by the hashes and names in
// their lock files, and tells whether it's up to date. It only reads the registry's
// tables.
package resolve

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// Archive is the hash kind of whole archives: SHA-256 of the archive as pushed, or of the
// canonical one.
const Archive treehash.Kind = "archive"

// An Item is one installed skill, as a client or lock file describes it.
type Item struct {
	Name         string
	Organisation string // "": the caller's
	Version      string // as the client calls it; "" if unknown
	EntryID      string // "" if unknown
	// Here: it was installed from this server. Then its name identifies the entry even if
	// no hash matches.
	Here   bool
	Hashes []treehash.Hash
}

// A State compares an installed version with the registry.
type State string

// The states.
const (
	UpToDate  State = "up_to_date"
	Behind    State = "behind" // not current, including versions that were rolled back
	Withdrawn State = "withdrawn"
	Candidate State = "candidate"
	Modified  State = "modified" // the entry has no version with these files
	Unknown   State = "unknown"  // nothing that the caller may see
)

// A Result is what the registry knows about an item.
type Result struct {
	State State
	// By is how the version was identified: "hash" or "version"; "" if it wasn't.
	By string
	// The fields below are empty if the entry, or the version, is unknown.
	EntryID, Name, Organisation string
	Own                         bool // of the caller's organisation
	Version, Hash               string
	Latest, LatestHash          string
}

// Limits of a request.
const ( // per request
	MaxItems  = 1_000 // per item
	maxHashes = 8     // characters
	maxText   = 200
)

// Service resolves items.
type Service struct {
	DB *store.DB
}

// prefix matches the short content hash that clients use as the version of a plugin.
var prefix = regexp.MustCompile(`^[0-9a-f]{12}$`)

// kinds are the hash kinds that a request may use.
func kinds() []treehash.Kind {
	return []treehash.Kind{
		Archive, treehash.ClawHub, treehash.ClawHubSource, treehash.SkillsLock, treehash.WellKnown, treehash.ToolHive,
		treehash.Plugin, treehash.DirHash,
	}
}

// normalise validates the items and brings hashes into the form in which they are
// indexed.
func normalise(items []Item) ([]Item, error) {
	if len(items) > MaxItems {
		return nil, fault.Invalid("items", "items: expected at most %d items", MaxItems)
	}
	items = slices.Clone(items)
	for n := range items {
		item, at := &items[n], "items."+strconv.Itoa(n)
		for field, text := range map[string]string{
			"name": item.Name, "organisation": item.Organisation, "version": item.Version, "entry_id": item.EntryID,
		} {
			if issues := registry.CheckText(at+"."+field, text, maxText); issues != nil {
				return nil, fault.Issues(issues...)
			}
		}
		if len(item.Hashes) > maxHashes {
			return nil, fault.Invalid(at+".hashes", "hashes: expected at most %d items", maxHashes)
		}
		item.Hashes = slices.Clone(item.Hashes)
		for i, h := range item.Hashes {
			at := at + ".hashes." + strconv.Itoa(i)
			if !slices.Contains(kinds(), h.Kind) {
				return nil, fault.Invalid(at+".kind", "kind: expected one of %v", kinds())
			}
			if h.Kind == treehash.Plugin && prefix.MatchString(h.Hex) {
				continue
			}
			if h.Hex = treehash.Parse(h.Kind, h.Hex); h.Hex == "" {
				return nil, fault.Invalid(at+".hash", "hash must be a SHA-256")
			}
			item.Hashes[i] = h
		}
	}
	return items, nil
}

// Resolve returns what the registry knows about the items, in their order. It considers
// the organisation's versions and the public ones of others; an unlisted entry is found
// by its id, or by organisation and name. Everything else is Unknown.
func (s *Service) Resolve(ctx context.Context, orgID string, items []Item) (results []Result, err error) {
	defer fault.Wrap(&err, "resolve")
	if items, err = normalise(items); err != nil {
		return nil, err
	}
	byHash, err := versionsByHash(ctx, s.DB, orgID, items)
	if err != nil {
		return nil, err
	}
	named, err := entriesByName(ctx, s.DB, orgID, items)
	if err != nil {
		return nil, err
	}
	results = make([]Result, len(items))
	for i, item := range items {
		results[i] = item.result(byHash, named)
	}
	return results, nil
}

// A match is a version, or just an entry, that an item may be.
type match struct {
	entryID, name, organisation string
	own, unlisted               bool
	version, hash               string // "" without a version
	state                       registry.State
	latest, latestHash          string
	current                     bool  // it's the entry's current version
	pushed                      int64 // microseconds
}

// result picks the best match of an item.
func (i Item) result(byHash map[treehash.Hash][]match, named *names) Result {
	entry, isNamed := named.of(i)
	var found []match
	for _, h := range i.Hashes {
		found = append(found, byHash[h]...)
	}
	// An unlisted entry is only visible to callers who know its id, or organisation and
	// name. The hash of its files is not enough.
	found = slices.DeleteFunc(found, func(m match) bool {
		return m.unlisted && !m.own && m.entryID != i.EntryID && (i.Organisation != m.organisation || i.Name != m.name)
	})
	// The same files may be several versions, even of several entries. Prefer the entry
	// that the item names, then the caller's own, then the current version.
	slices.SortStableFunc(found, func(a, b match) int {
		return cmp.Or(
			first(a.entryID == entry.entryID, b.entryID == entry.entryID),
			first(a.own, b.own), first(a.named(i), b.named(i)), strings.Compare(a.entryID, b.entryID),
			first(a.current, b.current), first(a.version == i.Version, b.version == i.Version),
			first(a.state == registry.Published, b.state == registry.Published),
			first(a.state == registry.Withdrawn, b.state == registry.Withdrawn), cmp.Compare(b.pushed, a.pushed),
		)
	})
	// If a named entry doesn't have the files, the skill is modified, even if somebody
	// else published the same files.
	if len(found) > 0 && (!isNamed || found[0].own || found[0].entryID == entry.entryID) {
		return found[0].result("hash")
	}
	if !isNamed {
		return Result{State: Unknown}
	}
	by := ""
	if version, ok := named.versions[[2]string{entry.entryID, i.Version}]; ok {
		entry, by = version, "version"
	}
	r := entry.result(by)
	switch {
	case len(i.Hashes) > 0:
		r.State = Modified
	case by == "":
		r.State = Unknown
	}
	return r
}

// first compares booleans for sorting: true sorts first.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// named reports whether the match has the item's name, in its organisation if it says
// one.
func (m match) named(i Item) bool {
	return m.name == i.Name && (i.Organisation == "" || m.organisation == i.Organisation)
}

// result compares the match with the entry's current version.
func (m match) result(by string) Result {
	r := Result{
		State: Behind, By: by, EntryID: m.entryID, Name: m.name, Organisation: m.organisation, Own: m.own,
		Version: m.version, Hash: m.hash, Latest: m.latest, LatestHash: m.latestHash,
	}
	switch {
	case m.current || m.state == registry.Published && m.hash == m.latestHash: // rolled forward, or pushed again
		r.State = UpToDate
	case m.state == registry.Withdrawn:
		r.State = Withdrawn
	case m.state == registry.Candidate:
		r.State = Candidate
	}
	return r
}
