package gates

import (
	"cmp"
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// A Question asks for the gate of a snapshot, e.g. of a folder that is to be
// pushed. What is not given is as the entry's policy says. Suites, Trials and MinCases replace
// those of the policy; validate bounds them all the same.
type Question struct {
	EntryID    string
	SnapshotID string // of a cloud source of the organisation
	Version    string // what it would be called; "snapshot" when empty
	Against    string // a version; "": the current one
	Suites     []string
	Trials     *int
	MinCases   *int
}

// policy applies the question to the policy of the entry. The gate only reports. Floors and
// limits stay as they are.
func (q Question) policy(p Policy) Policy {
	p.Mode = Report
	if len(q.Suites) > 0 {
		p.Suites = slices.Compact(slices.Sorted(slices.Values(q.Suites)))
	}
	if q.Trials != nil {
		p.Trials = *q.Trials
	}
	if q.MinCases != nil {
		p.MinCases = *q.MinCases
	}
	return p
}

// Ask starts the gate of a snapshot: the same decision as after a push, of which
// nothing is published. Gates of other snapshots go on. Its trials cost as much as those of a
// push, within the same limits.
func (s *Service) Ask(ctx context.Context, c access.Caller, q Question) (g Gate, err error) {
	defer fault.Wrap(&err, "gate of snapshot %s", q.SnapshotID)
	inherited, _, err := s.PolicyOf(ctx, c.OrgID, q.EntryID)
	if err != nil {
		return g, err
	}
	p := q.policy(inherited)
	issues := p.validate()
	if len(issues) == 0 {
		if issues, err = s.checkSuites(ctx, c.OrgID, p.Suites); err != nil {
			return g, err
		}
	}
	issues = append(issues, registry.CheckText("version", q.Version, maxLabel)...)
	if len(issues) > 0 {
		return g, fault.Issues(issues...)
	}
	skill, err := s.Runs.Subjects().Find(ctx, c.OrgID, subject.Ref{SnapshotID: q.SnapshotID})
	if err != nil {
		return g, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		e, err := s.Registry.Lock(ctx, tx, c.OrgID, q.EntryID)
		if err != nil {
			return err
		}
		g = newGate(e, registry.Version{ID: q.SnapshotID, Version: cmp.Or(q.Version, "snapshot")}, p, c.UserID)
		// Number 0 marks it as a folder.
		g.Pull, g.Content = &Pull{ID: store.NewID(), SnapshotID: q.SnapshotID}, skill.ContentHash
		if q.Against == "" {
			g, err = s.openAgainstCurrent(ctx, tx, e, g)
		} else {
			var against registry.Version
			if against, err = s.Registry.VersionNamed(ctx, tx, e, q.Against); err != nil {
				return err
			}
			g.AgainstID, g.Against = &against.ID, &against.Version
			g, err = s.open(ctx, tx, e, g)
		}
		if err != nil {
			return err
		}
		return g.audit(ctx, tx, "gates.gate.ask", nil)
	})
	return g, err
}

// maxLabel is how long the name of a version may be.
const maxLabel = 128
