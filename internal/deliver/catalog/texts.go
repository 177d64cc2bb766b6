package catalog

import (
	"context"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// bytesPerToken estimates tokens of English text, as validation does.
const bytesPerToken = 4

// TextTokens estimates the tokens of the current versions of skills that are in the
// registry, by skill: of name and description, which agents list to their model,
// and of SKILL.md, which they load. One that is too large to be kept in the
// database has no estimate.
func (s *Service) TextTokens(ctx context.Context, skillIDs []string) (listing, body map[string]int64, err error) {
	listing, body = map[string]int64{}, map[string]int64{}
	texts, err := registry.TextsOfSkills(ctx, s.Registry.DB, skillIDs)
	for _, t := range texts {
		listing[t.SkillID] = int64(utf8.RuneCountInString(t.Name)+utf8.RuneCountInString(t.Description)) / bytesPerToken
		if t.SkillMD != nil {
			body[t.SkillID] = *t.SkillMD / bytesPerToken
		}
	}
	return listing, body, err
}
