package catalog

import (
	"context"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// bytesPerToken estimates tokens of English text, as validation does.
const bytesPerToken = 4

// Texts measures the texts of skills. It is no part of Service, which needs the registry: what
// skills cost is estimated below it.
type Texts struct{ DB *store.DB }

// TextTokens implements costs.Texts: it estimates the tokens of the current versions of skills
// that are in the registry, by skill: of name and description, which agents list to their model,
// and of SKILL.md, which they load. One that is too large to be kept in the database has no
// estimate.
func (t Texts) TextTokens(ctx context.Context, skillIDs []string) (listing, body map[string]int64, err error) {
	listing, body = map[string]int64{}, map[string]int64{}
	texts, err := registry.TextsOfSkills(ctx, t.DB, skillIDs)
	for _, text := range texts {
		listing[text.SkillID] = int64(utf8.RuneCountInString(text.Name)+utf8.RuneCountInString(text.Description)) / bytesPerToken
		if text.SkillMD != nil {
			body[text.SkillID] = *text.SkillMD / bytesPerToken
		}
	}
	return listing, body, err
}
