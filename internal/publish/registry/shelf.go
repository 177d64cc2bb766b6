package registry

import (
	"cmp"
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A Shelf is the part of the registry that one discovery index lists: skills
// with a canonical archive.
type Shelf struct {
	OrgName string // "": the public skills of all organisations
	Private bool   // also those that only the organisation may see
}

// A Revision differs whenever something on a shelf has changed.
type Revision struct {
	Orgs, Changes int64
	// Removals differs when something was withdrawn, deleted or hidden. What was made of the
	// shelf before that must not be served any more.
	Removals int64
}

// ShelfRevision returns the revision of a shelf.
func (s *Service) ShelfRevision(ctx context.Context, sh Shelf) (Revision, error) {
	return RevisionOf(ctx, s.DB, sh)
}

// EachOnShelf calls fn for at most limit skills of a shelf, with the JSON array
// of their files' paths.
func (s *Service) EachOnShelf(ctx context.Context, sh Shelf, limit int, fn func(l Listed, paths string) error) error {
	return eachOnShelf(ctx, s.DB, sh, limit, fn)
}

// SkillOnShelf finds one skill of a shelf by name. Unlisted ones of an organisation's
// shelf are found like public ones.
func (s *Service) SkillOnShelf(ctx context.Context, sh Shelf, name string) (Listed, error) {
	found, err := skillsNamed(ctx, s.DB, sh, name)
	if err != nil {
		return Listed{}, err
	}
	if len(found) == 0 {
		return Listed{}, fault.New(fault.NotFound, "Skill %s not found", name)
	}
	return found[0], nil
}

// maxShelfText is how many characters a description in an index may have.
const maxShelfText = 1024

// Summary is the description of the current version, or else the entry's, as
// indexes show it. Clients print it as it is, so it is one plain line.
func (l Listed) Summary() string {
	return text.TruncateRunes(text.PlainLine(cmp.Or(l.Current.Description, l.Description)), maxShelfText)
}
