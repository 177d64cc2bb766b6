package pricing

import (
	"regexp"
	"strings"
)

var (
	// provider is what clouds and gateways put before a model's name, e.g.
	// "us.anthropic." or "openrouter/anthropic/".
	provider = regexp.MustCompile(`^(?:.*/)?(?:(?:us|eu|apac|au|jp|ca|global|us-gov)\.)?(?:(?:anthropic|openai|google)\.)?`)
	// variant is what they put behind it: the length of the context, a date, the
	// version of a deployment.
	variant = regexp.MustCompile(`(?:\[[^\]]*\]|[-@]20\d{6}|-20\d\d-\d\d-\d\d|-v\d+(?::\d+)*|:[a-z0-9]+|@default|-latest)$`)
)

// candidates are the names by which a model is looked up, in lower case: as
// reported, without its provider, and without the suffixes of that, which are
// removed one by one. Of "us.anthropic.claude-sonnet-4-5-20250929-v1:0" the last
// one is "claude-sonnet-4-5".
func candidates(model string) []string {
	model = strings.ToLower(strings.TrimSpace(model))
	names := []string{model}
	if plain := model[len(provider.FindString(model)):]; plain != model {
		names = append(names, plain)
	}
	for {
		last := names[len(names)-1]
		at := variant.FindStringIndex(last)
		if at == nil || at[0] == 0 {
			return names
		}
		names = append(names, last[:at[0]])
	}
}
