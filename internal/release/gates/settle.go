package gates

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Approvals knows what people decided about versions. The package approvals, above this one,
// implements it.
type Approvals interface {
	// Missing says what is missing of people's approval, e.g. "it has 1 of 2
	// approvals"; "" if nothing is.
	Missing(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (string, error)
}

// Settle makes a candidate current once its gate and people let it pass. Otherwise
// it says what the candidate waits for. The entry is locked. The package approvals calls it
// after an approval, which may have been the last thing missing.
func (s *Service) Settle(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version) (waits string, err error) {
	g, err := s.gateOf(ctx, tx, v)
	if err != nil {
		return "", err
	}
	return s.settle(ctx, tx, e, v, g)
}

// SettleUnapproved is Settle without the approvals: a person overrides them, and says
// why. The caller has checked that the person may do that. A gate that blocks still blocks.
func (s *Service) SettleUnapproved(
	ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, reason string,
) (waits string, err error) {
	g, err := s.gateOf(ctx, tx, v)
	if err != nil {
		return "", err
	}
	if waits, err = s.passed(ctx, tx, e, v, g); waits != "" || err != nil {
		return waits, err
	}
	return "", s.release(ctx, tx, e, v, g, audit.Detail{"reason": reason})
}

// Waits says what a candidate waits for, and changes nothing. The page of a version shows it.
// People come first, since they can do something about it.
func (s *Service) Waits(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (string, error) {
	g, err := s.gateOf(ctx, q, v)
	if err != nil {
		return "", err
	}
	if missing, err := s.missing(ctx, q, e, v); missing != "" || err != nil {
		return missing, err
	}
	waits, _, err := s.blocked(ctx, q, e, v, g)
	return waits, err
}

// gateOf returns the newest gate of a version; nil if it has none.
func (s *Service) gateOf(ctx context.Context, q store.Querier, v registry.Version) (none *Gate, err error) {
	if v.GateID == nil {
		return none, nil // the policy may ask for approvals only
	}
	g, err := gateByID(ctx, q, v.OrgID, *v.GateID)
	return &g, err
}

// settle is the one place where gate and people meet. Keep it the only caller of release
// besides SettleUnapproved, so that no path forgets one of the two.
func (s *Service) settle(
	ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, g *Gate,
) (waits string, err error) {
	if waits, err = s.missing(ctx, tx, e, v); waits != "" || err != nil {
		return waits, err
	}
	if waits, err = s.passed(ctx, tx, e, v, g); waits != "" || err != nil {
		return waits, err
	}
	return "", s.release(ctx, tx, e, v, g, nil)
}

// missing is what people have yet to do; "" without Approvals.
func (s *Service) missing(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (string, error) {
	if s.Approvals == nil {
		return "", nil
	}
	return s.Approvals.Missing(ctx, q, e, v)
}

// passed says what a candidate waits for besides people. A gate whose comparison is
// out of date runs again.
func (s *Service) passed(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, g *Gate) (string, error) {
	waits, stale, err := s.blocked(ctx, tx, e, v, g)
	if err == nil && stale {
		err = s.again(ctx, tx, e, v, *g)
	}
	return waits, err
}

// blocked says why the gate does not let a candidate pass; stale if it did, in
// comparison with a version that is not current any more. Without a gate, a later
// push that is current keeps the candidate back.
func (s *Service) blocked(
	ctx context.Context, q store.Querier, e registry.Entry, v registry.Version, g *Gate,
) (waits string, stale bool, err error) {
	switch {
	// A gate that only reports doesn't keep a candidate back; only its approvals did.
	case g == nil || !g.holds():
		waits, err = s.overtaken(ctx, q, e, v)
		return waits, false, err
	case g.Override != nil:
		return "", false, nil
	case g.Status.Open():
		return "its gate is running", false, nil
	case g.Verdict == nil:
		return fmt.Sprintf("its gate was %s", g.Status), false, nil
	case !g.Releases():
		return fmt.Sprintf("its gate says %s", *g.Verdict), false, nil
	}
	if stale, err := s.stale(ctx, q, e, v, *g); !stale || err != nil {
		return "", false, err
	}
	if waits, err = s.overtaken(ctx, q, e, v); waits != "" || err != nil {
		return waits, false, err
	}
	open, err := openGates(ctx, q, e.ID, "")
	if err != nil {
		return "", false, err
	}
	if len(open) > 0 { // a gate more would supersede it
		return fmt.Sprintf("the gate of version %s is running", open[0].Version), false, nil
	}
	return fmt.Sprintf("version %s became current meanwhile, so its gate runs again", e.CurrentVersion), true, nil
}

// overtaken says that the current version was pushed after another one; "" if it was
// not, or if the other one does not become current. Otherwise a slow gate would replace a newer
// version by an older one.
func (s *Service) overtaken(ctx context.Context, q store.Querier, e registry.Entry, v registry.Version) (string, error) {
	if v.Apart {
		return "", nil
	}
	current, err := s.Registry.VersionByID(ctx, q, e, e.CurrentVersionID)
	if fault.Is(err, fault.NotFound) || err == nil && !current.PushedAt.After(v.PushedAt) {
		return "", nil // or the first version is a candidate
	}
	return fmt.Sprintf("version %s was pushed later and is current", e.CurrentVersion), err
}

// again compares a candidate with what is current now, after a rollback. It keeps the policy of
// the gate, under which the version was pushed.
func (s *Service) again(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, g Gate) error {
	fresh, err := s.openAgainstCurrent(ctx, tx, e, newGate(e, v, g.Policy, g.CreatedBy))
	if err != nil {
		return err
	}
	v.GateID = &fresh.ID
	return s.Registry.SetState(ctx, tx, e, v)
}

// release makes the candidate current, and the audit log says why it could be.
func (s *Service) release(
	ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, g *Gate, d audit.Detail,
) error {
	detail := audit.Detail{"version": v.Version}
	if g != nil {
		detail["gate"] = g.ID
	}
	switch {
	case g == nil:
	case g.Override != nil:
		detail["reason"] = g.Override.Reason
	case g.Verdict != nil:
		detail["verdict"] = *g.Verdict
	}
	for key, value := range d {
		detail[key] = value
	}
	_, _, err := s.Registry.Release(ctx, tx, e, v, detail)
	return err
}
