package release

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// maxChoices is how many of the newest versions are offered for a rollback. Older ones
// can still be named.
const maxChoices = 100

// Choices are the options of a person who is about to roll back, with the figures to
// decide by.
type Choices struct {
	Entry   registry.Entry
	Current *Choice // nil while no version is current
	Targets []Choice
	Default string    // version that a rollback without a target chooses; "" if there is none
	Undo    *Undoable // nil if there is nothing to undo
	// ForwardOnly: clients that never downgrade have installed the entry. Only a rollback
	// that rolls forward reaches them.
	ForwardOnly bool
}

// A Choice is a version and its quality.
type Choice struct {
	registry.Version
	Quality  skills.Quality
	Interval *[2]float64 // 95 % Wilson interval of the pass rate; nil without one
	Tenure   *Tenure     // nil if it was never current
}

// A Tenure is the most recent period in which a version was current.
type Tenure struct {
	Since time.Time
	Until *time.Time // nil: still current
}

// Undoable is a rollback that can still be undone.
type Undoable struct {
	From, To string
	At       time.Time
}

// Choices returns the versions that an entry of the organisation can be rolled back to,
// newest first.
func (s *Service) Choices(ctx context.Context, orgID, entryID string) (c Choices, err error) {
	defer fault.Wrap(&err, "choices of entry %s", entryID)
	if c.Entry, err = s.Registry.Own(ctx, orgID, entryID); err != nil {
		return c, err
	}
	versions, quality, err := s.Registry.Versions(ctx, orgID, entryID, maxChoices)
	if err != nil {
		return c, err
	}
	tenures, err := tenuresOf(ctx, s.DB, entryID)
	if err != nil {
		return c, err
	}
	if _, c.Default, err = idBefore(ctx, s.DB, c.Entry); err != nil && !fault.Is(err, fault.NotFound) {
		return c, err
	}
	for _, v := range versions {
		choice := Choice{Version: v, Quality: quality[v.ID]}
		if t, ok := tenures[v.ID]; ok {
			choice.Tenure = &t
		}
		if rate := choice.Quality.PassRate; rate != nil {
			low, high := stats.Wilson(*rate, int(choice.Quality.GradedSessions))
			choice.Interval = &[2]float64{low, high}
		}
		switch {
		case v.ID == c.Entry.CurrentVersionID:
			c.Current = &choice
		case v.State == registry.Published:
			c.Targets = append(c.Targets, choice)
		}
	}
	if c.ForwardOnly, err = s.forwardOnly(ctx, s.DB, entryID); err != nil {
		return c, err
	}
	last, _, err := s.undoable(ctx, s.DB, c.Entry)
	// A conflict means that there is nothing to undo.
	if fault.Is(err, fault.Conflict) {
		return c, nil
	}
	if err == nil {
		c.Undo = &Undoable{last.from, last.to, last.at}
	}
	return c, err
}
