package gates

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/gates/decision"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Blocks says why an enforced gate keeps a version from becoming current, for those who
// may not decide against it; "" if none does. An open gate counts as well: else a gate
// that is run again would lift what the last one decided.
func (s *Service) Blocks(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (string, error) {
	p, err := PolicyIn(ctx, q, e)
	if err != nil {
		return "", err
	}
	g, open, err := lastDecided(ctx, q, e.ID, v.ID)
	switch {
	case err != nil:
		return "", err
	case g.Verdict != nil && *g.Verdict == decision.Block && (p.Mode == Enforce || g.Policy.Mode == Enforce):
		return "its gate blocked it", nil
	case open && p.Mode == Enforce:
		return "its gate has not decided yet", nil
	}
	return "", nil
}
