package report

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
)

// ListingsOf implements sets.Listings: for each list of versions it says what agents would list
// of just those, by the rules and windows of the report.
func (s *Service) ListingsOf(ctx context.Context, orgID string, versions [][]string) (all []api.SetCatalogue, err error) {
	defer fault.Wrap(&err, "listings of %d sets", len(versions))
	var ids []string
	for _, of := range versions {
		ids = append(ids, of...)
	}
	known := map[string]entry{}
	err = eachVersion(ctx, s.DB, orgID, ids, func(versionID string, e entry) error {
		known[versionID] = e
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Claude Code shortens the descriptions of rarely used skills first.
	used := Report{}
	for _, e := range known {
		used.Skills = append(used.Skills, Skill{EntryID: e.id, SkillID: e.skillID, Name: e.name, InRegistry: true})
	}
	if len(known) > 0 {
		since := store.Now().Truncate(secondsPerDay*time.Second).AddDate(0, 0, 1-usesDays)
		if err := s.readCounts(ctx, orgID, &used, since); err != nil {
			return nil, err
		}
	}
	uses := map[string]int64{}
	for _, k := range used.Skills {
		uses[k.EntryID] = k.Uses
	}
	list := func(agent listing.Agent, of []string) api.SetListing {
		r := Report{Options: Options{Agent: agent, Window: agent.Window()}}
		var texts []listing.Skill
		// By name as in a report: of skills that are used alike, agents shorten the last.
		of = slices.SortedFunc(slices.Values(of), func(a, b string) int { return strings.Compare(known[a].name, known[b].name) })
		for _, id := range of {
			e, ok := known[id]
			if !ok {
				continue
			}
			r.Skills = append(r.Skills, Skill{Name: e.name, InRegistry: true, Uses: uses[e.id]})
			texts = append(texts, e.text(agent))
		}
		r.list(texts)
		return api.SetListing{Tokens: r.Totals.Tokens, Truncated: r.Totals.Truncated}
	}
	all = make([]api.SetCatalogue, len(versions))
	for i, of := range versions {
		all[i] = api.SetCatalogue{ClaudeCode: list(listing.ClaudeCode, of), Codex: list(listing.Codex, of)}
	}
	return all, nil
}
