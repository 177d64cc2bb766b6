package catalog

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Sets says what sets of skills give. They lie beside this package.
type Sets interface {
	// Named returns the id of an organisation's set.
	Named(ctx context.Context, orgName, name string) (string, error)
	// Selection returns what the sets of a shelf give together.
	Selection(ctx context.Context, sh registry.Shelf) (registry.Selection, error)
}

const (
	// maxChosen bounds the bytes of all cached selections, of which an entry takes chosenSize.
	maxChosen  = 16 << 20
	chosenSize = 400
)

// selection returns what a shelf is restricted to, empty for one that is not. It is kept until
// something of the organisation changes, sets included.
func (s *Service) selection(ctx context.Context, sh registry.Shelf) (registry.Selection, error) {
	if sh.Sets == "" {
		return registry.Selection{}, nil
	}
	s.once.Do(s.init)
	return s.chosen.Get(ctx, sh, "", func(ctx context.Context) (registry.Selection, int64, error) {
		only, err := s.Sets.Selection(ctx, sh)
		return only, int64(chosenSize * len(only)), err
	})
}

// Allowed returns which versions of a skill on a shelf may be served: those in the ranges of its
// sets, and all of a shelf without.
func (s *Service) Allowed(ctx context.Context, sh registry.Shelf, entryID string) (func(version string) bool, error) {
	only, err := s.selection(ctx, sh)
	if sh.Sets == "" || err != nil {
		return func(string) bool { return err == nil }, err
	}
	return only[entryID].Allows, nil
}

// freshly is each without what is kept.
func (s *Service) freshly(ctx context.Context, sh registry.Shelf, fn func(l registry.Listed, paths string) error) error {
	only := registry.Selection{}
	if sh.Sets != "" {
		var err error
		if only, err = s.Sets.Selection(ctx, sh); err != nil {
			return err
		}
	}
	return s.Registry.EachOnShelf(ctx, sh, only, maxSkills, fn)
}

// each calls fn for the skills of a shelf, with the paths of their files.
func (s *Service) each(ctx context.Context, sh registry.Shelf, fn func(l registry.Listed, paths string) error) error {
	only, err := s.selection(ctx, sh)
	if err != nil {
		return err
	}
	return s.Registry.EachOnShelf(ctx, sh, only, maxSkills, fn)
}
