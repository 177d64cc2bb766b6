package repohost

import (
	"context"
	"errors"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/attempt"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/lease"
)

// A Commit is where a version came from.
type Commit struct {
	ConnectionID, AttemptID, SHA string
	// Reported says that results are written back to the code host.
	Reported bool
	// OpenIssues says that the connection wants an issue.
	OpenIssues bool
}

// CommitOf returns the commit that a version of an entry was published from. It is
// NotFound if it came from none that is connected.
func (s *Service) CommitOf(ctx context.Context, q store.Querier, orgID, entryID, version string) (c Commit, err error) {
	a, err := attempt.OfVersion(ctx, q, orgID, entryID, version)
	if err != nil {
		return c, err
	}
	connection, err := connectionByID(ctx, q, a.ConnectionID)
	if err != nil {
		return c, err
	}
	mode, err := modeOf(ctx, q, orgID)
	on := mode != ModeOff && connection.WriteBackEnabled
	return Commit{a.ConnectionID, a.ID, a.Commit, on, connection.OpenIssues && mode != ModeOff}, err
}

// ErrBusy says that an attempt is being reported right now: try again soon.
var ErrBusy = errors.New("the attempt is being reported")

// FailCommit turns the status and the check-run of an attempt to failure, with the
// evidence. A host without check-runs gets the status only. What the attempt has yet
// to report is not sent any more: it would hide the failure.
func (s *Service) FailCommit(ctx context.Context, attemptID, title, evidence, url string) (err error) {
	defer fault.Wrap(&err, "fail attempt %s", attemptID)
	held, acquired, err := lease.Acquire(ctx, s.DB, lease.Attempts, attemptID)
	if err != nil {
		return err
	}
	defer held.Release(ctx, s.Log)
	a, err := attempt.ByID(ctx, s.DB, attemptID)
	if err != nil {
		return err
	}
	if !acquired {
		return ErrBusy
	}
	c, err := connectionByID(ctx, s.DB, a.ConnectionID)
	if err != nil {
		return err
	}
	repo, err := s.repoOf(ctx, c)
	if err != nil {
		return err
	}
	if a.WriteBack == attempt.Pending { // before anything is sent: after a crash, its job would hide the failure
		a.WriteBack, a.WriteBackDetail = attempt.Success, "the rollback of the version was reported instead"
		if err := attempt.UpdateWriteBack(ctx, s.DB, a); err != nil {
			return err
		}
	}
	err = s.Host.SetStatus(ctx, repo, a.Commit, host.Status{
		State: host.StateFailure, Context: c.StatusContext(), Description: title, TargetURL: url,
	})
	if err != nil && !errors.Is(err, host.ErrUnsupported) {
		return err
	}
	// A new run of the same name takes the place of the one that succeeded.
	a.Findings, a.CheckRunID = nil, nil
	check := s.checkRun(c, a, Report{
		Conclusion: host.ConclusionFailure, Title: title, Summary: evidence, URL: url, GateID: rolledBack,
	})
	err = s.Host.SetCheck(ctx, repo, &check)
	if err != nil && !errors.Is(err, host.ErrUnsupported) {
		return err
	}
	if err == nil {
		a.CheckRunID, a.Reported = &check.ID, rolledBack
	}
	return attempt.UpdateWriteBack(ctx, s.DB, a)
}

// rolledBack stands for the gate in a check-run about a rollback.
const rolledBack = "rollback"

// SetIssue opens the connection's issue, or changes the one that is open.
func (s *Service) SetIssue(ctx context.Context, connectionID string, i *host.Issue) (err error) {
	defer fault.Wrap(&err, "issue of connection %s", connectionID)
	c, err := connectionByID(ctx, s.DB, connectionID)
	if err != nil {
		return err
	}
	repo, err := s.repoOf(ctx, c)
	if err != nil {
		return err
	}
	i.Marker = "<!-- whetstone:" + connectionID + " -->"
	i.Body += "\n\n" + i.Marker
	return s.Host.SetIssue(ctx, repo, i)
}

// IsTransient reports whether an error of the code host may pass.
func IsTransient(err error) bool { return isTransient(err) }
