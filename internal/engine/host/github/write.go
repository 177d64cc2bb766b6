package github

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

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

// write makes a call like Host.call that changes something.
func (h *Host) write(ctx context.Context, r host.Repo, method, path string, in, out any) error {
	release, err := h.writes.acquire(ctx, r.ID)
	if err != nil {
		return err
	}
	defer release()
	_, err = h.call(ctx, r, method, path, in, out)
	return err
}

// SetStatus implements host.Host.
func (h *Host) SetStatus(ctx context.Context, r host.Repo, commit string, s host.Status) (err error) {
	defer fault.Wrap(&err, "status of %s in %s", commit, r.FullName)
	return h.write(ctx, r, http.MethodPost, "/statuses/"+commit, map[string]any{
		"state": s.State, "context": s.Context, "target_url": s.TargetURL,
		"description": text.Ellipsis(s.Description, maxDescription),
	}, nil)
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
	for c.ID == "" || c.Changed || c.Sent < len(c.Annotations) {
		if err := h.sendCheck(ctx, r, c); err != nil {
			return err
		}
		c.Changed = false
	}
	return nil
}

// findCheck looks for a check-run that was created by a request whose response
// was lost.
func (h *Host) findCheck(ctx context.Context, r host.Repo, c *host.Check) error {
	var found struct {
		Runs []struct {
			ID         int64
			ExternalID string `json:"external_id"`
			Output     struct {
				Annotations int `json:"annotations_count"`
			}
		} `json:"check_runs"`
	}
	query := url.Values{"check_name": {c.Name}, "filter": {"all"}, "per_page": {"100"}}
	err := h.get(ctx, r, "/commits/"+c.HeadSHA+"/check-runs?"+query.Encode(), &found)
	for _, run := range found.Runs {
		if run.ExternalID == c.ExternalID {
			c.ID, c.Sent = strconv.FormatInt(run.ID, 10), min(run.Output.Annotations, len(c.Annotations))
		}
	}
	return err
}

// sendCheck creates a check-run, or sends what it says now, with the next part of its
// annotations. It may have had more than it has now: they cannot be taken back.
func (h *Host) sendCheck(ctx context.Context, r host.Repo, c *host.Check) error {
	first := min(c.Sent, len(c.Annotations))
	next := min(first+maxAnnotations, len(c.Annotations))
	output := map[string]any{"title": c.Title, "summary": text.EllipsisBytes(c.Summary, maxSummary)}
	if first < next {
		var annotations []map[string]any
		for _, a := range c.Annotations[first:next] {
			annotations = append(annotations, map[string]any{
				"path": a.Path, "start_line": max(a.Line, 1), "end_line": max(a.Line, 1),
				"annotation_level": a.Level, "title": a.Title, "message": a.Message,
			})
		}
		output["annotations"] = annotations
	}
	run := map[string]any{"name": c.Name, "details_url": c.DetailsURL, "output": output, "status": "in_progress"}
	if c.Conclusion != "" {
		run["status"], run["conclusion"], run["completed_at"] = "completed", c.Conclusion, c.CompletedAt
	}
	method, path := http.MethodPatch, "/check-runs/"+c.ID
	if c.ID == "" {
		method, path = http.MethodPost, "/check-runs"
		run["head_sha"], run["external_id"] = c.HeadSHA, c.ExternalID
	}
	var made struct{ ID int64 }
	err := h.write(ctx, r, method, path, run, &made)
	if err == nil && c.ID == "" {
		c.ID = strconv.FormatInt(made.ID, 10)
	}
	if err == nil {
		c.Sent = max(c.Sent, next)
	}
	return err
}

// SetIssue implements host.Host.
func (h *Host) SetIssue(ctx context.Context, r host.Repo, i *host.Issue) (err error) {
	defer fault.Wrap(&err, "issue in %s", r.FullName)
	type issue struct {
		Number  int64
		Body    string
		HTMLURL string `json:"html_url"`
	}
	if i.Number == 0 {
		var open []issue
		if err := h.get(ctx, r, "/issues?state=open", &open); err != nil {
			return err
		}
		for _, one := range open {
			if strings.Contains(one.Body, i.Marker) {
				i.Number = one.Number
			}
		}
	}
	in := map[string]any{"title": i.Title, "body": text.EllipsisBytes(i.Body, maxSummary)}
	method, path := http.MethodPost, "/issues"
	if i.Number != 0 {
		method, path = http.MethodPatch, fmt.Sprintf("/issues/%d", i.Number)
		in["state"] = "open"
		if i.Closed {
			in["state"] = "closed"
		}
	}
	var made issue
	if err := h.write(ctx, r, method, path, in, &made); err != nil {
		return err
	}
	i.Number, i.URL = made.Number, made.HTMLURL
	return nil
}
