package gates

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/gates/decision"
)

// Blocks says why an enforced gate keeps a version from becoming current, for owners, who may
// not decide against it; "" if none does. Admins may override a gate. The newest gate that
// passed or blocked the version counts: one that was run again, superseded or stopped lifts
// nothing. A candidate without such a gate has no proof; a version that was published without
// one may come back.
func (s *Service) Blocks(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (string, error) {
	p, err := PolicyIn(ctx, q, e)
	if err != nil {
		return "", err
	}
	all, err := gatesOfVersion(ctx, q, v)
	if err != nil {
		return "", err
	}
	enforced, open := p.Mode == Enforce, len(all) > 0 && all[0].Status.Open()
	for _, g := range all {
		// Either policy suffices: switching the gate off after a block doesn't lift the block.
		enforced = enforced || g.Policy.Mode == Enforce
		switch {
		// It is open, or was superseded or cancelled. The gates before it count.
		case g.Verdict == nil:
		case *g.Verdict == decision.Block && enforced:
			return "its gate blocked it", nil
		case open && enforced:
			return "its gate has not decided yet", nil
		case g.Releases():
			return "", nil
		}
	}
	switch {
	case !enforced || v.State != registry.Candidate:
		return "", nil
	case open:
		return "its gate has not decided yet", nil
	}
	return "no gate has let it pass", nil
}
