package telemetry

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// shareable selects the prompts whose text the organisation may read: those that
// a user typed and did not mark as private.
const shareable = `p.kind IN ('', 'user', 'unknown') AND p.prompt_text <> ''`

// PromptTexts returns the texts of prompts by their Ref. It leaves out prompts that were
// erased, have expired or may not be shared.
func PromptTexts(ctx context.Context, q store.Querier, orgID string, refs []string) (map[string]string, error) {
	in, list := q.Dialect().In("$2", refs)
	rows, err := q.Query(ctx, `
		SELECT p.hash, p.prompt_text FROM telemetry_prompts p
		WHERE p.org_id = $1 AND p.hash`+in+` AND `+shareable, orgID, list)
	texts := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var hash, text string
		err := row.Scan(&hash, &text)
		texts[hash] = text
		return err
	})
	return texts, err
}
