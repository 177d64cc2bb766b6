package checks

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
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/release/gates/outcome"
)

// report writes the check-run of a pull request's head or, where there are none,
// its status. The job may run twice: the check is updated by its id, and the status is
// replaced.
func (s *Service) report(ctx context.Context, c repohost.Connection, p Pull) error {
	if p.WriteBack != publication.Pending {
		return nil
	}
	r, said, err := s.reportOfPull(ctx, c, p)
	if err != nil {
		return err
	}
	mode, err := s.Repohost.ModeFor(ctx, s.DB, c)
	if err != nil {
		return err
	}
	if !said || mode == repohost.ModeOff {
		p.WriteBack, p.WriteBackDetail = publication.Disabled, ""
		return updateReport(ctx, s.DB, p)
	}
	cause := s.post(ctx, c, &p, r)
	if ctx.Err() != nil { // a shutdown is not the host's failure, and uses up no try
		return ctx.Err()
	}
	p.WriteBackTries++
	again := s.Repohost.RetryLater(cause, p.WriteBackTries)
	p.WriteBack, p.WriteBackDetail = writeBack(cause)
	if again != nil {
		p.WriteBack = publication.Pending
	}
	return errors.Join(updateReport(ctx, s.DB, p), again)
}

// writeBack is what came of a write to the code host. Unsupported isn't retried, because only a
// person can change it: by a permission or a setting.
func writeBack(err error) (publication.WriteBackStatus, string) {
	switch {
	case err == nil:
		return publication.Success, ""
	case errors.Is(err, host.ErrUnsupported):
		return publication.Unsupported, "the code host has no checks"
	case fault.Is(err, fault.Denied), fault.Is(err, fault.NotFound), fault.Is(err, fault.Conflict):
		return publication.Unsupported, repohost.UserMessage(err)
	}
	return publication.WriteFailed, repohost.UserMessage(err)
}

// reportOfPull is what a pull request's check says; false if it says nothing.
func (s *Service) reportOfPull(ctx context.Context, c repohost.Connection, p Pull) (r repohost.Report, said bool, err error) {
	r = repohost.Report{
		Title: p.Message, Summary: outcome.Escape(p.Message), URL: s.PublicURL + "/repohost/connections/" + c.ID,
		Annotations: publication.Annotations(p.Findings),
	}
	if p.Head == "" {
		return r, false, nil // it was never read
	}
	switch p.Status {
	case Gating, Decided, Closed:
		return s.reportOfGate(ctx, c, p)
	case Valid:
		r.State, r.Conclusion = host.StateSuccess, host.ConclusionSuccess
	case Refused:
		r.State, r.Conclusion = host.StateFailure, host.ConclusionFailure
		r.Title = "Not valid"
	case Skipped:
		r.State, r.Conclusion = host.StateSuccess, host.ConclusionNeutral
	case Failed:
		r.State, r.Conclusion = host.StateError, host.ConclusionCancelled
		r.Title = "Not checked"
	// A check that says nothing would be one more line in every pull request of the repository.
	case Queued, Unchanged:
		return r, false, nil
	}
	r.Description = p.Message
	return r, true, nil
}

// reportOfGate is what the gate of a pull request's head says. Of a closed one
// only a gate that did not decide is of interest: its check must not stay pending.
func (s *Service) reportOfGate(ctx context.Context, c repohost.Connection, p Pull) (r repohost.Report, said bool, err error) {
	if p.GateID == nil {
		return r, false, nil
	}
	g, err := s.Gates.Get(ctx, p.OrgID, *p.GateID)
	if fault.Is(err, fault.NotFound) {
		return repohost.Report{
			GateID: *p.GateID, State: host.StateError, Conclusion: host.ConclusionCancelled, Title: entryDeleted,
			Summary: entryDeleted + ".\n", URL: s.PublicURL + "/repohost/connections/" + c.ID,
		}, true, nil
	}
	if err == nil && p.Status == Closed && g.Status == gates.Decided {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	r, err = s.describe(ctx, g, c.SkillPath)
	r.Annotations = append(publication.Annotations(p.Findings), r.Annotations...)
	r.Summary += "\nNothing was published.\n"
	return r, true, err
}

// post writes a check-run, or a status where the code host has none or does not
// let us. Of another head or gate a new check-run is made: code hosts don't move one between
// commits.
func (s *Service) post(ctx context.Context, c repohost.Connection, p *Pull, r repohost.Report) error {
	repo, err := s.Repohost.RepoOf(ctx, c)
	if err != nil {
		return err
	}
	about := p.Head + "/" + r.GateID
	check := host.Check{
		Name: "whetstone gate: " + c.EntryName, ExternalID: p.ID + "/" + about, HeadSHA: p.Head, DetailsURL: r.URL,
		Conclusion: r.Conclusion, Title: r.Title, Summary: r.Summary, CompletedAt: store.Now(), Annotations: r.Annotations,
	}
	if p.CheckRunID != nil && p.Reported == about {
		check.ID, check.Sent, check.Changed = *p.CheckRunID, p.AnnotationsSent, true
	}
	err = s.Repohost.Host.SetCheck(ctx, repo, &check)
	if check.ID != "" {
		p.CheckRunID, p.AnnotationsSent, p.Reported = &check.ID, check.Sent, about
	}
	if errors.Is(err, host.ErrUnsupported) || fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound) {
		return s.Repohost.Host.SetStatus(ctx, repo, p.Head, host.Status{
			State: r.State, Context: "whetstone/gate/" + c.ShortID(),
			Description: cmp.Or(r.Description, r.Title), TargetURL: r.URL,
		})
	}
	return err
}

// comment writes the one comment on a pull request, about all skills that it
// changes. The lease keeps replicas from writing two comments before the first one has an id.
func (s *Service) comment(ctx context.Context, at comment) (err error) {
	defer fault.Wrap(&err, "comment %s", at.id())
	if err := insertRemark(ctx, s.DB, at.id()); err != nil {
		return err
	}
	held, acquired, err := repohost.AcquireLease(ctx, s.DB, repohost.Comments, at.id())
	if err != nil {
		return err
	}
	if !acquired {
		return jobs.Snooze(repohost.LeasePoll)
	}
	defer held.Release(ctx, s.Log)
	is, err := remarkByID(ctx, s.DB, at.id())
	if err != nil {
		return err
	}
	// The same text isn't sent again: each write counts against the host's rate limit.
	body, c, err := s.commentBody(ctx, at)
	if err != nil || c.ID == "" || body == "" && is.commentID == 0 || body == is.body {
		return err
	}
	cause := s.postComment(ctx, c, at, &is, cmp.Or(body, "Nothing to check."))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	is.tries++
	again := s.Repohost.RetryLater(cause, is.tries)
	if cause == nil {
		is.body, is.tries = body, 0
	} else if again == nil {
		is.tries = 0
		s.Log.Warn("a pull request was not commented on", "repository", c.RepoFullName, "number", at.Number, "error", cause)
	}
	return errors.Join(updateRemark(ctx, s.DB, is), again)
}

// postComment changes the comment, or writes a new one if it was deleted.
func (s *Service) postComment(ctx context.Context, c repohost.Connection, at comment, is *remark, body string) error {
	repo, err := s.Repohost.RepoOf(ctx, c)
	if err != nil {
		return err
	}
	// The marker finds the comment again if its id was lost in a crash, and lets several
	// organisations comment on one pull request.
	marker := "<!-- whetstone:" + at.OrgID + " -->"
	out := host.Comment{ID: is.commentID, Pull: at.Number, Marker: marker, Body: marker + "\n" + body}
	err = s.Repohost.Host.SetComment(ctx, repo, &out)
	if fault.Is(err, fault.NotFound) && is.commentID != 0 {
		out.ID = 0
		err = s.Repohost.Host.SetComment(ctx, repo, &out)
	}
	is.commentID = out.ID
	return err
}

// commentBody is what the comment says, "" for nothing, and a connection to write
// it with, whose id is "" if there is none. Any of the connections will do: they are of one
// repository.
func (s *Service) commentBody(ctx context.Context, at comment) (body string, with repohost.Connection, err error) {
	all, err := pullsOfComment(ctx, s.DB, at)
	if err != nil {
		return "", with, err
	}
	var b strings.Builder
	for _, p := range all {
		c, err := s.Repohost.ConnectionByID(ctx, s.DB, p.ConnectionID)
		if err != nil {
			return "", with, err
		}
		mode, err := s.Repohost.ModeFor(ctx, s.DB, c)
		if err != nil {
			return "", with, err
		}
		if mode != repohost.ModePRs || p.Status == Skipped || p.Status == Failed {
			continue
		}
		if with = c; p.Status == Closed {
			p.Status = Decided // what was said last stays
		}
		r, said, err := s.reportOfPull(ctx, c, p)
		if err != nil {
			return "", with, err
		}
		if said {
			fmt.Fprintf(&b, "### %s: %s\n\n%s\n", outcome.Escape(c.EntryName), outcome.Escape(r.Title), r.Summary)
		}
	}
	return b.String(), with, nil
}
