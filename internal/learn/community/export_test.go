package community

import (
	"context"
	"errors"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Read validates a bundle and extracts its summary.
func (n New) Read(secret []byte) (Submission, error) { return n.read(secret) }

// ReadFigures runs every query of the reports.
func ReadFigures(ctx context.Context, q store.Querier, creatorID, skill string) error {
	_, _, totalsErr := totals(ctx, q, creatorID)
	_, countsErr := skillCounts(ctx, q, creatorID)
	_, reportErr := skillReport(ctx, q, creatorID, skill)
	_, _, halvesErr := halves(ctx, q, creatorID, skill)
	_, ofSkillErr := recentSubmissions(ctx, q, creatorID, skill, recentOfSkill)
	_, recentErr := recentSubmissions(ctx, q, creatorID, "", recentOfSkill)
	return errors.Join(totalsErr, countsErr, reportErr, halvesErr, ofSkillErr, recentErr)
}
