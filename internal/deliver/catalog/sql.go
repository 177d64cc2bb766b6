package catalog

import (
	"context"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// bytesPerToken estimates tokens of English text, as validation does.
const bytesPerToken = 4

// TextTokens estimates the tokens of the current versions of skills that are in the
// registry, by skill: of name and description, which agents list to their model,
// and of SKILL.md, which they load. One that is too large to be kept in the
// database has no estimate.
func (s *Service) TextTokens(ctx context.Context, skillIDs []string) (listing, body map[string]int64, err error) {
	listing, body = map[string]int64{}, map[string]int64{}
	in, list := s.Registry.DB.Dialect().In("$1", skillIDs)
	rows, err := s.Registry.DB.Query(ctx, `
		SELECT e.skill_id, e.name, e.description, LENGTH(v.skill_md)
		FROM registry_entries e JOIN registry_versions v ON v.id = e.current_version_id WHERE e.skill_id`+in, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var id, name, description string
		var size *int64
		err := row.Scan(&id, &name, &description, &size)
		listing[id] = int64(utf8.RuneCountInString(name)+utf8.RuneCountInString(description)) / bytesPerToken
		if size != nil {
			body[id] = *size / bytesPerToken
		}
		return err
	})
	return listing, body, err
}
