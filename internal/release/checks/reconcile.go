package checks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
)

// ReconcilePulls implements repohost.OnReconcile: it compares the open pull requests of
// the repository with what is known, and has those looked at that differ. Those
// that were open before since are left alone until something happens to them: the
// first look at a repository must not gate all that it has.
func (s *Service) ReconcilePulls(ctx context.Context, c repohost.Connection, since time.Time) (err error) {
	defer fault.Wrap(&err, "pull requests of connection %s", c.ID)
	if _, err := s.Registry.Own(ctx, c.OrgID, c.EntryID); fault.Is(err, fault.NotFound) {
		return nil // its pull requests were closed with the entry
	}
	mode, err := s.Repohost.ModeFor(ctx, s.DB, c)
	if err != nil {
		return err
	}
	gates := mode != repohost.ModeOff && c.PullRequests != repohost.NoPulls
	var open []host.Pull
	complete := true
	if gates {
		if open, complete, err = s.openPulls(ctx, c); err != nil {
			return err
		}
	}
	numbers := make([]string, len(open))
	for i, p := range open {
		numbers[i] = fmt.Sprint(p.Number)
	}
	known, err := pullsToCompare(ctx, s.DB, c.ID, numbers)
	if err != nil {
		return err
	}
	var missed []int64
	for _, now := range open {
		is, found := known[now.Number]
		delete(known, now.Number)
		if found && differs(c, mode, is, now) || !found && now.CreatedAt.After(since) {
			missed = append(missed, now.Number)
		}
	}
	for number, is := range known { // that are not open, or not gated any more
		if complete && is.Status != Closed && is.Status != Queued && (gates || is.Status != Skipped) {
			missed = append(missed, number)
		}
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		for _, number := range missed {
			if err := s.PullChanged(ctx, tx, c, number); err != nil {
				return err
			}
		}
		return nil
	})
}

// openPulls lists the open pull requests of a connection's repository, none where
// they cannot be read: events are answered with that, too.
func (s *Service) openPulls(ctx context.Context, c repohost.Connection) (open []host.Pull, complete bool, err error) {
	repo, err := s.Repohost.RepoOf(ctx, c)
	if err == nil {
		open, complete, err = s.Repohost.Host.OpenPulls(ctx, repo)
	}
	if errors.Is(err, host.ErrUnsupported) || fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound) ||
		fault.Is(err, fault.Conflict) {
		return nil, false, nil
	}
	return open, complete, err
}

// differs reports whether an open pull request is not as it is known. What is queued
// will be read anyway, and what has failed needs a person.
func differs(c repohost.Connection, mode repohost.Mode, is Pull, now host.Pull) bool {
	if is.Status == Queued || is.Status == Failed {
		return false
	}
	reason := notGated(c, mode, now)
	if is.Status == Skipped {
		return is.Head != now.Head || is.Message != reason
	}
	return is.Status == Closed || is.Head != now.Head || reason != ""
}
