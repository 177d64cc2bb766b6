package repohost

import (
	"context"
	"errors"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// A Commit is the commit that a version came from, and what may be reported about it.
type Commit struct {
	ConnectionID, AttemptID, SHA string
	// Reported: results are written back to the code host.
	Reported bool
	// OpenIssues: the connection wants an issue for a rollback.
	OpenIssues bool
}

// CommitOf returns the commit that a version was published from. It's fault.NotFound if
// the version didn't come from a connected repository.
func (s *Service) CommitOf(ctx context.Context, q store.Querier, orgID, entryID, version string) (c Commit, err error) {
	a, err := publication.OfVersion(ctx, q, orgID, entryID, version)
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

// ErrBusy says that an attempt is being reported right now; retry soon.
var ErrBusy = errors.New("the attempt is being reported")

// FailCommit turns the status and check run of an attempt's commit into a failure with
// the evidence, after a rollback. A code host without check runs only gets the status. A
// pending report of the attempt is dropped, because it would overwrite the failure.
func (s *Service) FailCommit(ctx context.Context, attemptID, title, evidence, url string) (err error) {
	defer fault.Wrap(&err, "fail attempt %s", attemptID)
	held, acquired, err := AcquireLease(ctx, s.DB, LeaseAttempts, attemptID)
	if err != nil {
		return err
	}
	defer held.Release(ctx, s.Log)
	a, err := publication.ByID(ctx, s.DB, attemptID)
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
	if a.WriteBack == publication.Pending { // store this first: after a crash, the pending job would overwrite the failure
		a.WriteBack, a.WriteBackDetail = publication.Success, "the rollback of the version was reported instead"
		if err := publication.UpdateWriteBack(ctx, s.DB, a); err != nil {
			return err
		}
	}
	err = s.Host.SetStatus(ctx, repo, a.Commit, host.Status{
		State: host.StateFailure, Context: c.StatusContext(), Description: title, TargetURL: url,
	})
	if err != nil && !errors.Is(err, host.ErrUnsupported) {
		return err
	}
	// Without an id a new check run is created; by its name it replaces the successful
	// one.
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
	return publication.UpdateWriteBack(ctx, s.DB, a)
}

// rolledBack takes the gate's place in a check run about a rollback.
const rolledBack = "rollback"

// SetIssue opens the connection's issue, or updates the one that is open, which is found
// by the marker in its body, an HTML comment.
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

// IsTransient reports whether a failed request to the code host is worth a retry.
func IsTransient(err error) bool { return isTransient(err) }
