package overview

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/stats"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A Current is how the current version of a skill's entry does, in the days that the
// skill's own pass rate covers.
type Current struct {
	Version  string
	PassRate *float64 // nil without a graded session
	Graded   int64
}

// Status is the one that the version would have by itself.
func (c Current) Status() skills.Status { return skills.StatusOf(c.PassRate, c.Graded) }

// Worse returns the worse of the skill's status, which is that of all versions together,
// and the current version's. The latter counts if its pass rate is below that of all by
// more than chance: of a few sessions, many pass or fail by luck.
func (c Current) Worse(status skills.Status, all *float64) skills.Status {
	order := map[skills.Status]int{skills.Critical: 0, skills.Warning: 1, skills.Healthy: 2, skills.Unknown: 2}
	if own := c.Status(); order[own] < order[status] && all != nil {
		if _, high := stats.Wilson(*c.PassRate, int(c.Graded)); high < *all {
			return own
		}
	}
	return status
}

// Hidden reports whether the skill's status does not show how bad the current version is.
func (c Current) Hidden(status skills.Status, all *float64) bool {
	return c.Worse(status, all) != status
}

// CurrentOf returns how the current versions of an organisation's skills do, by skill id.
// Skills outside the registry are missing.
func (s *Service) CurrentOf(ctx context.Context, orgID string, skillIDs []string, days int) (map[string]Current, error) {
	if len(skillIDs) == 0 {
		return map[string]Current{}, nil
	}
	return currentVersions(ctx, s.DB, orgID, firstDay(days), skillIDs)
}

// CurrentChanged is CurrentOf for all skills whose entry changed in these days. Of the
// others, the version was current all the time.
func (s *Service) CurrentChanged(ctx context.Context, orgID string, days int) (map[string]Current, error) {
	return currentVersions(ctx, s.DB, orgID, firstDay(days), nil)
}

// firstDay is the first of the last days, today included.
func firstDay(days int) int64 { return time.Now().Unix()/secondsPerDay - int64(days) + 1 }
