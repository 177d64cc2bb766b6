package catalog

import (
	"context"
	"net/url"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Skill finds one skill of a shelf by its name.
func (s *Service) Skill(ctx context.Context, sh registry.Shelf, name string) (registry.Listed, error) {
	only, err := s.selection(ctx, sh)
	if err != nil {
		return registry.Listed{}, err
	}
	l, err := s.Registry.SkillOnShelf(ctx, sh, only, name)
	if err == nil && !discoverable(l) {
		err = fault.New(fault.NotFound, "Skill %s not found", name)
	}
	return l, err
}

// BaseOf is the base of an organisation, without a token.
func BaseOf(org string) string { return "/o/" + url.PathEscape(org) }

// ValidName reports whether installers accept a name: it is that of a folder on
// every system, and has no two characters that look alike.
func ValidName(name string) bool {
	return len(name) <= 64 && validName.MatchString(name) && !skillpkg.IsWindowsDevice(name)
}
