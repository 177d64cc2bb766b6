package signals

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Store stores bodies with signals of any day and contributor, as Ingest does with those
// of a group, and returns how many of each were new.
func (s *Service) Store(ctx context.Context, orgID string, bodies ...[]Signal) ([]int, error) {
	calls := each(bodies, func(signals []Signal) *bodyCall {
		signals = each(signals, func(one Signal) Signal {
			one.Contributor = s.contributor(orgID, "cohort", one.Contributor)
			return one
		})
		return &bodyCall{Ctx: ctx, Value: &bodySignals{batch: s.batchOf(orgID, signals)}}
	})
	err := s.store(ctx, orgID, calls)
	return each(calls, func(c *bodyCall) int { return c.Value.accepted }), err
}

// Names of days and weeks in responses.
var (
	DayName  = dayName
	WeekName = weekName
)

// Read reads a body without storing anything.
func (s *Service) Read(c access.Caller, body []byte) ([]Signal, Result, error) {
	return s.read(c, body)
}

// ParseWeek reads the name of a week.
var ParseWeek = parseWeek

// A ShownCell is a cell whose figures are shown, and the cell above it.
type ShownCell struct {
	Name, Above, Group string
	Sum                int64 // of the confidences
}

// Shown returns all cells that are shown.
func (s *Service) Shown(ctx context.Context, orgID string) (all []ShownCell, err error) {
	f, err := s.forest(ctx, orgID, "", orgLevel, skillLevel, kindLevel, weekLevel, dayLevel, stateLevel, invocationLevel, gradeLevel, queryLevel)
	var walk func(n *node, above string)
	walk = func(n *node, above string) {
		if !n.shown {
			return
		}
		name := n.id(orgID)
		all = append(all, ShownCell{name, above, above + string(n.level), n.confidenceSum})
		for _, siblings := range n.below {
			for _, child := range siblings {
				walk(child, name)
			}
		}
	}
	for _, skill := range f.skills {
		walk(skill, "")
	}
	return all, err
}

// Republish publishes the figures of an organisation as if all its signals had been sent
// at once.
func (s *Service) Republish(ctx context.Context, orgID string) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE signal_cells SET since = 'all', revealed = 0, published_signals = NULL, published_contributors = 0, published_few = ''
			WHERE org_id = $1`, orgID)
		if err != nil {
			return err
		}
		return s.snapshot(ctx, tx, orgID, true)
	})
}
