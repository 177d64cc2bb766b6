package report

import (
	"context"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/catalogue"
	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
)

// usesDays is the window in which uses count: Claude Code keeps the descriptions of the
// skills that are used most.
const usesDays = 30

// ListFor lists an organisation's skills for a run: as the report of an agent does,
// or with whole descriptions. The tested skill takes the place of the registry's
// version. Runs, which are below this package, call it through a hook.
func (s *Service) ListFor(ctx context.Context, orgID string, c catalogue.Choice, of catalogue.Subject) (out catalogue.Listing,
	err error,
) {
	agent := listing.ClaudeCode // which reads all that an author writes for the model
	if c.Catalog != catalogue.Full {
		agent = listing.Agent(c.Catalog)
		if out.Window = c.Window; out.Window == 0 {
			out.Window = agent.Window()
		}
	}
	r := Report{Options: Options{Agent: agent, Window: out.Window, Days: usesDays}}
	texts, err := s.readSkills(ctx, orgID, &r)
	if err != nil {
		return out, err
	}
	// The text of the run's version, which may not be published yet.
	own := entry{name: of.Name, description: of.Description, head: []byte(of.Text)}.text(agent)
	at := slices.IndexFunc(texts, func(k listing.Skill) bool { return k.Name == of.Name })
	if at < 0 {
		at, texts, r.Skills = len(texts), append(texts, own), append(r.Skills, Skill{Name: of.Name, InRegistry: true})
	}
	texts[at] = own
	since := store.Now().Truncate(secondsPerDay*time.Second).AddDate(0, 0, 1-usesDays)
	if err := s.readCounts(ctx, orgID, &r, since); err != nil {
		return out, err
	}
	r.list(texts)
	content := [][]string{{of.Name, of.Text}} // the same for every agent: a version never changes
	for i := range texts {
		if i != at {
			content = append(content, []string{texts[i].Name, r.Skills[i].Version, texts[i].Description})
		}
		line := r.Skills[i].Line
		shown := judge.Skill{Name: texts[i].Name, Description: line.Seen()}
		if c.Catalog == catalogue.Full {
			shown.Description = line.Text
		}
		// A run of a hidden skill would measure nothing, so the run is told.
		if line.Form == listing.Hidden {
			out.Hidden = out.Hidden || i == at
			continue
		}
		if line.Form != listing.Omitted || c.Catalog == catalogue.Full {
			out.Skills = append(out.Skills, shown)
		}
	}
	// It tells whether two runs had the same catalog, whatever each agent makes of
	// it.
	out.Content = catalogue.Digest(content)
	return out, nil
}
