// Package resolve finds the versions of what clients have installed, by the hashes
// and names in their lock files. It reads the registry's tables.
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

// Archive is the kind of the SHA-256 of an archive: as it was pushed, or as discovery
// serves it.
const Archive treehash.Kind = "archive"

// An Item is what a client has installed.
type Item struct {
	Name         string
	Organisation string // "" for that of the caller
	Version      string // as the client calls it; "" if it does not say
	EntryID      string // "" if it does not say
	// Here reports that it came from this server: then the name finds its entry, even if
	// no hash does.
	Here   bool
	Hashes []treehash.Hash
}

// A State says what became of a version.
type State string

// The states.
const (
	UpToDate  State = "up_to_date"
	Behind    State = "behind" // also if the installed version was rolled back
	Withdrawn State = "withdrawn"
	Candidate State = "candidate"
	Modified  State = "modified" // the entry has no version with these files
	Unknown   State = "unknown"  // nothing that the caller may see
)

// A Result is what the registry knows of an item.
type Result struct {
	State State
	// By is what found the version: "hash" or "version"; "" if nothing did.
	By string
	// What follows is empty if the entry, or the version, is not known.
	EntryID, Name, Organisation string
	Own                         bool // of the caller's organisation
	Version, Hash               string
	Latest, LatestHash          string
}

// Limits of a request.
const (
	MaxItems  = 1_000
	maxHashes = 8
	maxText   = 200
)

// Service resolves items.
type Service struct {
	DB *store.DB
}

// prefix is what a client numbers a plugin with by its content.
var prefix = regexp.MustCompile(`^[0-9a-f]{12}$`)

// kinds are those that a hash may have.
func kinds() []treehash.Kind {
	return []treehash.Kind{
		Archive, treehash.ClawHub, treehash.ClawHubSource, treehash.SkillsLock, treehash.WellKnown, treehash.ToolHive,
		treehash.Plugin, treehash.DirHash,
	}
}

// normalise validates the items and puts hashes in the form of the index.
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

// Resolve returns what the registry knows of the items, in their order. It finds the
// versions of the organisation and the public ones of others; an unlisted entry is
// found by its id, or by its organisation and name. Whatever else there may be is Unknown.
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

// A match is a version, or only an entry, that an item may be.
type match struct {
	entryID, name, organisation string
	own, unlisted               bool
	version, hash               string // "" without a version
	state                       registry.State
	latest, latestHash          string
	current                     bool // the version is
	pushed                      int64
}

func (i Item) result(byHash map[treehash.Hash][]match, named *names) Result {
	entry, isNamed := named.of(i)
	var found []match
	for _, h := range i.Hashes {
		found = append(found, byHash[h]...)
	}
	// What is unlisted is found by those who know its id, or its organisation and name.
	found = slices.DeleteFunc(found, func(m match) bool {
		return m.unlisted && !m.own && m.entryID != i.EntryID && (i.Organisation != m.organisation || i.Name != m.name)
	})
	// The same files may be several versions, also of several entries: the one that the
	// item names, the caller's own, the current one.
	slices.SortStableFunc(found, func(a, b match) int {
		return cmp.Or(
			first(a.entryID == entry.entryID, b.entryID == entry.entryID),
			first(a.own, b.own), first(a.named(i), b.named(i)), strings.Compare(a.entryID, b.entryID),
			first(a.current, b.current), first(a.version == i.Version, b.version == i.Version),
			first(a.state == registry.Published, b.state == registry.Published),
			first(a.state == registry.Withdrawn, b.state == registry.Withdrawn), cmp.Compare(b.pushed, a.pushed),
		)
	})
	// Others may publish the files of an edited skill: it is edited all the same.
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

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (m match) named(i Item) bool {
	return m.name == i.Name && (i.Organisation == "" || m.organisation == i.Organisation)
}

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
