package repohost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// writeBack reports an attempt on its commit, with a commit status and a check run. The
// code host may refuse either one alone. It's retried with backoff and never affects what
// was published.
func (s *Service) writeBack(ctx context.Context, attemptID string) (err error) {
	defer fault.Wrap(&err, "write back attempt %s", attemptID)
	held, acquired, err := AcquireLease(ctx, s.DB, LeaseAttempts, attemptID)
	if err != nil {
		return err
	}
	defer held.Release(ctx, s.Log)
	a, err := publication.ByID(ctx, s.DB, attemptID)
	// Someone else reported it, or it was disabled: nothing left to do.
	if fault.Is(err, fault.NotFound) || err == nil && a.WriteBack != publication.Pending {
		return nil
	}
	if err != nil {
		return err
	}
	if !acquired {
		return jobs.Snooze(LeasePoll)
	}
	c, err := connectionByID(ctx, s.DB, a.ConnectionID)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	report, err := s.reportOf(ctx, c, a)
	if err != nil {
		return err
	}
	parts, retry := s.postOutcome(ctx, c, &a, report)
	if ctx.Err() != nil { // a shutdown isn't the code host's failure and doesn't count as a try
		return ctx.Err()
	}
	a.WriteBackTries++
	a.WriteBack, a.WriteBackDetail = combine(parts)
	mayRetry := retry != nil && a.WriteBackTries <= len(s.backoff())
	if mayRetry {
		a.WriteBack = publication.Pending
	}
	if err := publication.UpdateWriteBack(ctx, s.DB, a); err != nil {
		return err
	}
	if mayRetry {
		return retryAfter(retry, s.backoffAfter(a.WriteBackTries))
	}
	return nil
}

// postPending sets a pending status on the commit before the first try. It's best effort:
// the final status replaces it.
func (s *Service) postPending(ctx context.Context, c Connection, repo host.Repo, a publication.Attempt) {
	mode, err := modeOf(ctx, s.DB, c.OrgID)
	if err == nil && mode != ModeOff && c.WriteBackEnabled && a.Tries == 1 {
		err = s.Host.SetStatus(ctx, repo, a.Commit, host.Status{
			State: host.StatePending, Context: c.StatusContext(),
			Description: "Whetstone reads the commit", TargetURL: s.entryURL(c),
		})
	}
	if err != nil && !errors.Is(err, host.ErrUnsupported) {
		s.Log.Debug("a publish was not announced", "connection", c.ID, "commit", a.Commit, "error", err)
	}
}

// A part is the outcome of one of the two kinds of reports.
type part struct {
	name   string
	status publication.WriteBackStatus
	reason string
}

// postOutcome sends the status and the check run, skipping what an earlier try sent. The
// error, if any, is transient and worth a retry.
func (s *Service) postOutcome(ctx context.Context, c Connection, a *publication.Attempt, report Report) ([]part, error) {
	repo, err := s.repoOf(ctx, c)
	if err != nil {
		return []part{outcome("statuses", err), outcome("checks", err)}, nil
	}
	var failures []error
	if !a.StatusSent {
		err := s.Host.SetStatus(ctx, repo, a.Commit, host.Status{
			State: report.State, Context: c.StatusContext(), Description: cmp.Or(report.Description, report.Title),
			TargetURL: report.URL,
		})
		a.StatusSent = err == nil
		failures = append(failures, err)
	} else {
		failures = append(failures, nil)
	}
	check := s.checkRun(c, *a, report)
	failures = append(failures, s.Host.SetCheck(ctx, repo, &check))
	if check.ID != "" {
		a.CheckRunID, a.AnnotationsSent, a.Reported = &check.ID, check.Sent, report.GateID
	}
	parts := []part{outcome("statuses", failures[0]), outcome("checks", failures[1])}
	for _, err := range failures {
		if err != nil && !errors.Is(err, host.ErrUnsupported) && isTransient(err) {
			return parts, err
		}
	}
	return parts, nil
}

// outcome converts an error of the code host. Refusals mean "unsupported", since retrying
// won't help.
func outcome(name string, err error) part {
	switch {
	case err == nil:
		return part{name, publication.Success, ""}
	case errors.Is(err, host.ErrUnsupported):
		return part{name, publication.Unsupported, "the code host has none"}
	case fault.Is(err, fault.Denied), fault.Is(err, fault.NotFound), fault.Is(err, fault.Conflict):
		return part{name, publication.Unsupported, userMessage(err)}
	}
	return part{name, publication.WriteFailed, userMessage(err)}
}

// combine returns the worst status and the details of all parts, e.g. "statuses: success;
// checks: unsupported (the code host has none)".
func combine(parts []part) (publication.WriteBackStatus, string) {
	status := publication.Success
	var details []string
	for _, p := range parts {
		text := fmt.Sprintf("%s: %s", p.name, p.status)
		if p.reason != "" {
			text += " (" + p.reason + ")"
		}
		details = append(details, text)
		if p.status == publication.WriteFailed || p.status == publication.Unsupported && status == publication.Success {
			status = p.status
		}
	}
	return status, strings.Join(details, "; ")
}

// stateOf maps an attempt's status to a commit status. Nothing to publish is a success.
func stateOf(a publication.Attempt) host.State {
	switch a.Status {
	case publication.Done, publication.Unchanged, publication.Skipped:
		return host.StateSuccess
	case publication.Refused:
		return host.StateFailure
	case publication.Queued:
		return host.StatePending
	case publication.Failed:
	}
	return host.StateError
}

// entryURL is the page that commit statuses link to.
func (s *Service) entryURL(c Connection) string { return s.PublicURL + "/registry/" + c.EntryID }

// checkRun returns the check run of an attempt. Annotations can't be removed from a check
// run, so another gate needs a new run, identified by attempt and gate.
func (s *Service) checkRun(c Connection, a publication.Attempt, report Report) host.Check {
	check := host.Check{
		Name: "whetstone: " + c.EntryName, ExternalID: a.ID, HeadSHA: a.Commit, DetailsURL: report.URL,
		Conclusion: report.Conclusion, Title: report.Title, Summary: report.Summary, CompletedAt: store.Now(),
		Annotations: append(publication.Annotations(a.Findings), report.Annotations...),
	}
	if report.GateID != "" {
		check.ExternalID += "/" + report.GateID
	}
	if a.CheckRunID != nil && a.Reported == report.GateID {
		check.ID, check.Sent, check.Changed = *a.CheckRunID, a.AnnotationsSent, report.GateID != ""
	}
	return check
}
