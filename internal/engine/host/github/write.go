package github

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	api "github.com/google/go-github/v89/github"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// GitHub's limits.
const (
	maxDescription = 140    // characters
	maxSummary     = 65_535 // bytes
	maxAnnotations = 50     // in a request
)

// writeLimiter is a rate limit: one write at a time for each installation, with
// the pause between them that GitHub asks for.
type writeLimiter struct {
	pause  time.Duration
	mu     sync.Mutex
	queues map[int64]chan time.Time // contain the end of the last write while none is under way
}

// acquire waits until a write may start; release must be called after it.
func (w *writeLimiter) acquire(ctx context.Context, installation int64) (release func(), err error) {
	w.mu.Lock()
	if w.queues == nil {
		w.queues = map[int64]chan time.Time{}
	}
	if w.queues[installation] == nil {
		w.queues[installation] = make(chan time.Time, 1)
		w.queues[installation] <- time.Time{}
	}
	queue := w.queues[installation]
	w.mu.Unlock()
	var last time.Time
	select {
	case last = <-queue:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-time.After(time.Until(last.Add(w.pause))):
		return func() { queue <- time.Now() }, nil
	case <-ctx.Done():
		queue <- last
		return nil, ctx.Err()
	}
}

func (h *Host) write(ctx context.Context, installation int64, do func(*api.Client) (*api.Response, error)) error {
	release, err := h.writes.acquire(ctx, installation)
	if err != nil {
		return err
	}
	defer release()
	return h.call(ctx, installation, do)
}

// SetStatus implements host.Host.
func (h *Host) SetStatus(ctx context.Context, r host.Repo, commit string, s host.Status) (err error) {
	defer fault.Wrap(&err, "status of %s in %s", commit, r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return err
	}
	status := api.RepoStatus{
		State: new(string(s.State)), Context: &s.Context, TargetURL: &s.TargetURL,
		Description: new(text.Ellipsis(s.Description, maxDescription)),
	}
	return h.write(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		_, resp, err := c.Repositories.CreateStatus(ctx, owner, name, commit, status)
		return resp, err
	})
}

// SetCheck implements host.Host.
func (h *Host) SetCheck(ctx context.Context, r host.Repo, c *host.Check) (err error) {
	defer fault.Wrap(&err, "check of %s in %s", c.HeadSHA, r.FullName)
	if c.ID == "" {
		if err := h.findCheck(ctx, r, c); err != nil {
			return err
		}
		c.Changed = c.ID != ""
	}
	if c.ID == "" {
		if err := h.createCheck(ctx, r, c); err != nil {
			return err
		}
	}
	for c.Changed || c.Sent < len(c.Annotations) {
		if err := h.updateCheck(ctx, r, c); err != nil {
			return err
		}
		c.Changed = false
	}
	return nil
}

// findCheck looks for a check-run that was created by a request whose response
// was lost.
func (h *Host) findCheck(ctx context.Context, r host.Repo, c *host.Check) error {
	owner, name, err := splitOwned(r)
	if err != nil {
		return err
	}
	return h.call(ctx, r.ID, func(client *api.Client) (*api.Response, error) {
		found, resp, err := client.Checks.ListCheckRunsForRef(ctx, owner, name, c.HeadSHA, &api.ListCheckRunsOptions{
			CheckName: &c.Name, Filter: new("all"), ListOptions: api.ListOptions{PerPage: 100},
		})
		if err != nil {
			return resp, err
		}
		for _, run := range found.CheckRuns {
			if run.GetExternalID() == c.ExternalID {
				c.ID = strconv.FormatInt(run.GetID(), 10)
				c.Sent = min(run.GetOutput().GetAnnotationsCount(), len(c.Annotations))
			}
		}
		return resp, nil
	})
}

// progress is the status of a check-run and, once it is completed, its verdict.
func progress(c *host.Check) (status, conclusion *string, at *api.Timestamp) {
	if c.Conclusion == "" {
		return new("in_progress"), nil, nil
	}
	return new("completed"), new(string(c.Conclusion)), &api.Timestamp{Time: c.CompletedAt}
}

func (h *Host) createCheck(ctx context.Context, r host.Repo, c *host.Check) error {
	owner, name, err := splitOwned(r)
	if err != nil {
		return err
	}
	output, sent := output(c)
	options := api.CreateCheckRunOptions{
		Name: c.Name, HeadSHA: c.HeadSHA, DetailsURL: &c.DetailsURL, ExternalID: &c.ExternalID, Output: output,
	}
	options.Status, options.Conclusion, options.CompletedAt = progress(c)
	return h.write(ctx, r.ID, func(client *api.Client) (*api.Response, error) {
		made, resp, err := client.Checks.CreateCheckRun(ctx, owner, name, options)
		if err == nil {
			c.ID, c.Sent = strconv.FormatInt(made.GetID(), 10), sent
		}
		return resp, err
	})
}

// updateCheck sends what a check-run says now, and more annotations.
func (h *Host) updateCheck(ctx context.Context, r host.Repo, c *host.Check) error {
	owner, name, err := splitOwned(r)
	if err != nil {
		return err
	}
	id, err := strconv.ParseInt(c.ID, 10, 64)
	if err != nil {
		return err
	}
	output, sent := output(c)
	options := api.UpdateCheckRunOptions{Name: c.Name, DetailsURL: &c.DetailsURL, Output: output}
	options.Status, options.Conclusion, options.CompletedAt = progress(c)
	return h.write(ctx, r.ID, func(client *api.Client) (*api.Response, error) {
		_, resp, err := client.Checks.UpdateCheckRun(ctx, owner, name, id, options)
		if err == nil {
			c.Sent = sent
		}
		return resp, err
	})
}

// output is the next part of a check-run, and the number of annotations that the
// host has once it is sent. A check-run may have had more than it has now: they
// cannot be taken back.
func output(c *host.Check) (*api.CheckRunOutput, int) {
	first := min(c.Sent, len(c.Annotations))
	next := min(first+maxAnnotations, len(c.Annotations))
	out := &api.CheckRunOutput{Title: &c.Title, Summary: new(text.EllipsisBytes(c.Summary, maxSummary))}
	for _, a := range c.Annotations[first:next] {
		line := max(a.Line, 1)
		out.Annotations = append(out.Annotations, &api.CheckRunAnnotation{
			Path: new(a.Path), StartLine: &line, EndLine: &line, AnnotationLevel: new(string(a.Level)),
			Title: new(a.Title), Message: new(a.Message),
		})
	}
	return out, max(c.Sent, next)
}

// SetIssue implements host.Host.
func (h *Host) SetIssue(ctx context.Context, r host.Repo, i *host.Issue) (err error) {
	defer fault.Wrap(&err, "issue in %s", r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return err
	}
	if i.Number == 0 {
		err = h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
			open, resp, err := c.Issues.ListByRepo(ctx, owner, name, &api.IssueListByRepoOptions{State: "open"})
			for _, one := range open {
				if strings.Contains(one.GetBody(), i.Marker) {
					i.Number = int64(one.GetNumber())
				}
			}
			return resp, err
		})
		if err != nil {
			return err
		}
	}
	request := &api.IssueRequest{Title: &i.Title, Body: new(text.EllipsisBytes(i.Body, maxSummary))}
	return h.write(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		var made *api.Issue
		var resp *api.Response
		var err error
		if i.Number == 0 {
			made, resp, err = c.Issues.Create(ctx, owner, name, request)
		} else {
			request.State = new("open")
			if i.Closed {
				request.State = new("closed")
			}
			made, resp, err = c.Issues.Edit(ctx, owner, name, int(i.Number), request)
		}
		if err == nil {
			i.Number, i.URL = int64(made.GetNumber()), made.GetHTMLURL()
		}
		return resp, err
	})
}
