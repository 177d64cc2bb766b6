package registry

import (
	"cmp"
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A Shelf is the part of the registry that one discovery index lists: skills that have a
// canonical archive.
type Shelf struct {
	OrgName string // "": the public skills of all organisations
	Private bool   // include skills that only the organisation may see
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
// as a JSON array.
func (s *Service) EachOnShelf(ctx context.Context, sh Shelf, limit int, fn func(l Listed, paths string) error) error {
	return eachOnShelf(ctx, s.DB, sh, limit, fn)
}

// SkillOnShelf finds a skill of a shelf by name. On the shelf of an organisation it finds
// unlisted skills too: whoever asks knows both names.
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

// maxShelfText is the longest description in an index, in characters.
const maxShelfText = 1024

// Summary is the description that indexes show: that of the current version, or else the
// entry's. Clients print it to a terminal, so it's a single plain line.
func (l Listed) Summary() string {
	return text.TruncateRunes(text.PlainLine(cmp.Or(l.Current.Description, l.Description)), maxShelfText)
}
