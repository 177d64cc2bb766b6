package registry

import (
	"cmp"
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// A Shelf is the part of the registry that one discovery index lists: skills that have a
// canonical archive.
type Shelf struct {
	OrgName string // "": the public skills of all organisations
	Private bool   // include skills that only the organisation may see
	// Sets, if not "", restricts it to what these sets have: their ids, sorted and joined by commas.
	// It is part of the key of all that is cached about the shelf.
	Sets string
}

// A Selection says which entries a shelf has, and which version of each: the versions of what is
// left out are not shown either.
type Selection map[string]Selected

// Selected is the version of an entry that a shelf shows.
type Selected struct {
	Pick
	// Ranges are those that the version was chosen by; "" allows every version.
	Ranges []string
}

// Allows reports whether the shelf may serve a version of the entry.
func (s Selected) Allows(version string) bool {
	return slices.ContainsFunc(s.Ranges, func(r string) bool { return requires.Requirement{Range: r}.Allows(version) })
}

// A Revision identifies the state of a shelf: it differs after every change. Indexes are
// cached by it.
type Revision struct {
	Orgs, Changes int64
	// Removals differs after something was withdrawn, deleted or hidden. An index built
	// before that must not be served any more, not even as stale.
	Removals int64
}

// ShelfRevision returns the current revision of a shelf.
func (s *Service) ShelfRevision(ctx context.Context, sh Shelf) (Revision, error) {
	return RevisionOf(ctx, s.DB, sh)
}

// EachOnShelf calls fn for up to limit skills of a shelf, with the paths of their files
// as a JSON array. Of a shelf of sets, only holds what they have; it is ignored for others.
func (s *Service) EachOnShelf(
	ctx context.Context, sh Shelf, only Selection, limit int, fn func(l Listed, paths string) error,
) error {
	if sh.Sets == "" {
		return eachOnShelf(ctx, s.DB, sh, limit, fn)
	}
	return eachSelected(ctx, s.DB, sh, only, fn)
}

// SkillOnShelf finds a skill of a shelf by name. On the shelf of an organisation it finds
// unlisted skills too: whoever asks knows both names. Of a shelf of sets, only holds what they
// have.
func (s *Service) SkillOnShelf(ctx context.Context, sh Shelf, only Selection, name string) (Listed, error) {
	unknown := fault.New(fault.NotFound, "Skill %s not found", name)
	found, err := skillsNamed(ctx, s.DB, sh, name)
	if err != nil {
		return Listed{}, err
	}
	if len(found) == 0 {
		return Listed{}, unknown
	}
	l := found[0]
	if sh.Sets == "" {
		return l, nil
	}
	selected, ok := only[l.ID]
	switch {
	case !ok || selected.VersionID == "" || selected.CanonicalHash == "":
		return Listed{}, unknown
	case selected.VersionID == l.Current.ID:
		return l, nil
	}
	l.Current, err = versionByID(ctx, s.DB, l.Entry, selected.VersionID)
	if fault.Is(err, fault.NotFound) || err == nil && l.Current.State != Published {
		return Listed{}, unknown // withdrawn since the selection was made
	}
	return l, err
}

// maxShelfText is the longest description in an index, in characters.
const maxShelfText = 1024

// Summary is the description that indexes show: that of the current version, or else the
// entry's. Clients print it to a terminal, so it's a single plain line.
func (l Listed) Summary() string {
	return text.TruncateRunes(text.PlainLine(cmp.Or(l.Current.Description, l.Description)), maxShelfText)
}
