package catalog

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

const (
	// maxSkills and maxIndex bound a listing and an index; a larger catalogue is
	// searched, not installed.
	maxSkills = 5_000
	maxIndex  = 8 << 20 // bytes of the skills in it
	// maxListings bounds the bytes of all cached listings.
	maxListings = 32 << 20
	// listedSize is what a skill of a listing takes beside its texts.
	listedSize = 600
)

// A Listing has the current versions of a shelf's skills, ordered by name. It is
// shared and immutable.
type Listing []registry.Listed

// Find returns the skill of that name.
func (l Listing) Find(name string) (registry.Listed, bool) {
	i, ok := slices.BinarySearchFunc(l, name, func(have registry.Listed, name string) int { return cmp.Compare(have.Name, name) })
	if !ok {
		return registry.Listed{}, false
	}
	return l[i], true
}

// Listing returns what is on a shelf, from memory while that has not changed. It
// leaves out what is no skill that installers accept; candidates and withdrawn
// versions are never current.
func (s *Service) Listing(ctx context.Context, sh registry.Shelf) (Listing, error) {
	s.once.Do(s.init)
	return s.listings.Get(ctx, sh, "", func(ctx context.Context) (Listing, int64, error) {
		return s.readListing(ctx, sh, s.each)
	})
}

// ReadListing is Listing as the database has it now.
func (s *Service) ReadListing(ctx context.Context, sh registry.Shelf) (Listing, error) {
	list, _, err := s.readListing(ctx, sh, s.freshly)
	return list, err
}

// An eacher calls fn for the skills of a shelf.
type eacher func(ctx context.Context, sh registry.Shelf, fn func(l registry.Listed, paths string) error) error

func (s *Service) readListing(ctx context.Context, sh registry.Shelf, each eacher) (list Listing, size int64, err error) {
	release, err := s.Memory.Reserve(ctx, maxIndex)
	if err != nil {
		return nil, 0, err
	}
	defer release()
	list = Listing{}
	err = each(ctx, sh, func(l registry.Listed, _ string) error {
		l.Description = l.Summary()
		l.Current.Description = l.Description
		cost := int64(listedSize + len(l.Name) + len(l.Description) + len(l.OrgName))
		if discoverable(l) && size+cost <= maxIndex {
			size += cost
			list = append(list, l)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b registry.Listed) int { return cmp.Compare(a.Name, b.Name) })
	return list, size, err
}

var validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// discoverable reports whether installers would accept the entry. Some of them
// drop the whole index because of one that they would not.
func discoverable(l registry.Listed) bool {
	return ValidName(l.Name) && l.Summary() != ""
}
