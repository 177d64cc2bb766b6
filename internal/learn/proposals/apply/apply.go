// Package apply brings proposals to the skills that they are about: as the next
// version of the registry entry, as a pull request on the connected code host, or as
// a patch that a person applies. It follows what becomes of them.
package apply

import (
	"context"
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/compare"
)

// Service applies proposals.
type Service struct {
	DB        *store.DB
	Jobs      *jobs.Queue
	Proposals *proposals.Service
	Registry  *registry.Service
	Gates     *gates.Service
	Repohost  *repohost.Service
	// Interval is how often outcomes are compared with the code host, for webhooks
	// that were lost.
	Interval  time.Duration
	PublicURL string
	Log       *slog.Logger
}

// Apply starts to apply a proposal on behalf of the caller, and approves it if it is
// pending. Asked again, it answers with what there is. As a patch it is done at once,
// and the patch is returned. The slow part, e.g. the repository, is done by a job; the caller only
// gets the state queued.
func (s *Service) Apply(
	ctx context.Context, c access.Caller, id string, way proposals.Way,
) (p proposals.Proposal, patch string, err error) {
	defer fault.Wrap(&err, "apply proposal %s", id)
	if err := s.Proposals.Complete(ctx, c.OrgID, id); err != nil {
		return p, "", err
	}
	if p, err = s.Proposals.Get(ctx, c.OrgID, id); err != nil {
		return p, "", err
	}
	fresh := proposals.Outcome{Kind: way, State: proposals.Queued, AppliedBy: c.UserID, CreatedAt: store.Now()}
	switch way {
	case proposals.AsPullRequest:
		// The same check runs again under the lock; here it saves asking for the connection.
		if again, err := repeats(p, way); again || err != nil {
			return p, "", err
		}
		if fresh.ConnectionID, err = s.connection(ctx, p); err != nil {
			return p, "", err
		}
		// The name is a function of the proposal, so a retry finds the branch it made.
		fresh.Branch = "whetstone-proposal-" + p.ID
	case proposals.AsPatch:
		fresh.State = proposals.Given
		if patch, err = s.patch(ctx, p); err != nil {
			return p, "", err
		}
	case proposals.AsVersion:
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		p, err = s.Proposals.Lock(ctx, tx, c.OrgID, id)
		if err != nil {
			return err
		}
		if again, err := repeats(p, way); again || err != nil {
			return err
		}
		return s.start(ctx, tx, c, p, fresh)
	})
	if err != nil {
		return p, "", err
	}
	p, err = s.Proposals.Get(ctx, c.OrgID, id)
	return p, patch, err
}

// repeats reports whether the proposal is applied, or being applied, this way
// already. In another way that is a Conflict. A failed or closed attempt may be repeated.
func repeats(p proposals.Proposal, way proposals.Way) (bool, error) {
	o := p.Outcome
	switch {
	case p.Status == proposals.Rejected:
		return false, fault.New(fault.Conflict, "A proposal that is rejected cannot be applied")
	case o != nil && o.Kind == way && o.State != proposals.Failed && o.State != proposals.Closed:
		return true, nil
	case way == proposals.AsPatch && (o != nil || p.Status == proposals.Applied):
		return true, nil // a patch changes nothing by itself
	case o != nil && o.State.UnderWay():
		return false, fault.New(fault.Conflict, "The proposal is applied as a %s already, which is %s", label(o.Kind), o.State)
	case p.Status == proposals.Applied:
		return false, fault.New(fault.Conflict, "The proposal is applied already")
	}
	return false, nil
}

func label(w proposals.Way) string {
	if w == proposals.AsPullRequest {
		return "pull request"
	}
	return string(w)
}

// start stores a new outcome with the job that brings it about. The name of the version is reserved
// here only in the outcome: another push may take it, which publish notices.
func (s *Service) start(
	ctx context.Context, tx *store.Tx, c access.Caller, p proposals.Proposal, fresh proposals.Outcome,
) error {
	if err := p.Approvable(); err != nil {
		return err
	}
	if fresh.Kind == proposals.AsVersion {
		if p.EntryID == "" {
			return fault.New(fault.Conflict, "%s is not in the registry: push it first, or take the patch", p.SkillName)
		}
		e, err := s.Registry.Lock(ctx, tx, p.OrgID, p.EntryID)
		if err != nil {
			return err
		}
		fresh.EntryID = e.ID
		if fresh.Version, err = release.NextPatch(ctx, tx, e); err != nil {
			return err
		}
	}
	// Who may push may not necessarily approve: these are two permissions.
	if p.Status == proposals.Pending && fresh.Kind != proposals.AsPatch {
		if !c.May(access.Write) {
			return fault.New(fault.Denied, "The proposal is pending, and approving it needs the permission %s", access.Write)
		}
		if err := p.Decide(ctx, tx, c.UserID, proposals.Approved); err != nil {
			return err
		}
		if err := s.Proposals.Save(ctx, tx, p); err != nil {
			return err
		}
	}
	if err := putOutcome(ctx, tx, p, fresh); err != nil {
		return err
	}
	if err := p.Record(ctx, tx, "proposals.proposal.apply", audit.Detail{"as": fresh.Kind}); err != nil {
		return err
	}
	if fresh.State != proposals.Queued {
		return nil
	}
	return s.enqueue(ctx, tx, p.OrgID, p.ID)
}

// patch is the change as git apply and patch -p1 take it, in the folder of the skill.
func (s *Service) patch(ctx context.Context, p proposals.Proposal) (string, error) {
	if p.Outcome != nil && p.Outcome.State.UnderWay() || p.Status == proposals.Applied {
		return p.Diff, nil // the words have changed since, by this proposal
	}
	if err := p.Approvable(); err != nil {
		return "", err
	}
	words, err := s.Proposals.Words(ctx, p.OrgID, p.SkillID)
	if err != nil {
		return "", err
	}
	return string(compare.Texts("SKILL.md", words.SkillMD, p.SkillMD)), nil
}
