package gitlab

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// A mergeRequest is a pull request. Lists have no diffRefs.
type mergeRequest struct {
	Number       int64 `json:"iid"`
	Title, State string
	WebURL       string `json:"web_url"`
	SHA          string // null without commits
	Source       string `json:"source_branch"`
	Target       string `json:"target_branch"`
	SourceID     int64  `json:"source_project_id"` // null once the fork is deleted
	TargetID     int64  `json:"target_project_id"`
	Draft        bool
	Author       account
	CreatedAt    time.Time `json:"created_at"`
	MergeCommit  string    `json:"merge_commit_sha"`
	SquashCommit string    `json:"squash_commit_sha"`
	Changes      string    `json:"changes_count"` // e.g. "12", or "1000+"
	DiffRefs     struct {
		Base string `json:"base_sha"`
	} `json:"diff_refs"`
}

func (m *mergeRequest) out() host.Pull {
	return host.Pull{
		Number: m.Number, Title: m.Title, URL: m.WebURL, Head: m.SHA, Base: m.Target,
		Fork: m.SourceID == 0 || m.SourceID != m.TargetID, Draft: m.Draft,
		Closed: m.State == "closed" || m.State == "merged", // not while it is locked, to be merged
		Merged: m.State == "merged", CreatedAt: m.CreatedAt.UTC(),
	}
}

// mergeRequest reads one.
func (h *Host) mergeRequest(ctx context.Context, r host.Repo, p project, number int64) (m mergeRequest, err error) {
	return m, h.get(ctx, r.Installation, p.path("/merge_requests/%d", number), &m)
}

// Pull implements host.Host.
func (h *Host) Pull(ctx context.Context, r host.Repo, number int64) (_ host.Pull, err error) {
	defer fault.Wrap(&err, "merge request %d of %s", number, r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return host.Pull{}, err
	}
	m, err := h.mergeRequest(ctx, r, p, number)
	if err == nil && m.SHA == "" {
		err = fault.New(fault.NotFound, "The merge request has no commits")
	}
	if err != nil {
		return host.Pull{}, err
	}
	return m.out(), nil
}

// OpenPulls implements host.Host.
func (h *Host) OpenPulls(ctx context.Context, r host.Repo) (open []host.Pull, complete bool, err error) {
	defer fault.Wrap(&err, "open merge requests of %s", r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return nil, false, err
	}
	path := p.path("/merge_requests?state=opened&order_by=updated_at&sort=desc&per_page=100")
	complete, err = somePages(ctx, h, r.Installation, path, host.MaxPullPages, func(page []mergeRequest) {
		for _, m := range page {
			if m.SHA != "" {
				open = append(open, m.out())
			}
		}
	})
	return open, complete, err
}

// OpenPull implements host.Host.
func (h *Host) OpenPull(ctx context.Context, r host.Repo, n host.NewPull) (_ host.Pull, err error) {
	defer fault.Wrap(&err, "merge request of %s in %s", n.Branch, r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return host.Pull{}, err
	}
	var all []mergeRequest
	path := p.path("/merge_requests?state=all&order_by=created_at&sort=desc&source_branch=%s", url.QueryEscape(n.Branch))
	if err := h.get(ctx, r.Installation, path, &all); err != nil {
		return host.Pull{}, err
	}
	// A fork may have a branch of the same name.
	i := slices.IndexFunc(all, func(m mergeRequest) bool { return m.Source == n.Branch && m.SourceID == p.ID })
	if i >= 0 {
		return all[i].out(), nil
	}
	var made mergeRequest
	in := map[string]any{"title": n.Title, "source_branch": n.Branch, "target_branch": n.Base, "description": body(n.Body)}
	if _, err := h.send(ctx, r.Installation, http.MethodPost, p.path("/merge_requests"), in, &made); err != nil {
		return host.Pull{}, err
	}
	return made.out(), nil
}

// CommitFile implements host.Host.
func (h *Host) CommitFile(ctx context.Context, r host.Repo, c host.FileCommit) (sha string, err error) {
	defer fault.Wrap(&err, "commit to %s", r.FullName)
	there, err := h.Resolve(ctx, r, "refs/heads/"+c.Branch)
	if !fault.Is(err, fault.NotFound) {
		return there.SHA, err
	}
	p, err := h.locate(ctx, r)
	if err != nil {
		return "", err
	}
	var file struct{ Path string }
	if err := h.get(ctx, r.Installation, p.file(c.Path, c.Base), &file); err != nil {
		return "", err
	}
	var made commit
	in := map[string]any{
		"branch": c.Branch, "start_sha": c.Base, "commit_message": c.Message,
		"actions": []any{map[string]any{
			"action": "update", "file_path": c.Path, "encoding": "base64",
			"content": base64.StdEncoding.EncodeToString([]byte(c.Content)),
		}},
	}
	_, err = h.send(ctx, r.Installation, http.MethodPost, p.path("/repository/commits"), in, &made)
	return made.ID, err
}

// PullFiles implements host.Host.
func (h *Host) PullFiles(ctx context.Context, r host.Repo, number int64) (paths []string, complete bool, err error) {
	defer fault.Wrap(&err, "files of merge request %d of %s", number, r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return nil, false, err
	}
	m, err := h.mergeRequest(ctx, r, p, number)
	if err != nil {
		return nil, false, err
	}
	type diff struct {
		Old string `json:"old_path"`
		New string `json:"new_path"`
	}
	err = pages(ctx, h, r.Installation, p.path("/merge_requests/%d/diffs?per_page=100", number), func(page []diff) {
		for _, d := range page {
			paths = append(paths, d.New)
			if d.Old != "" && d.Old != d.New {
				paths = append(paths, d.Old)
			}
		}
	})
	return paths, !strings.HasSuffix(m.Changes, "+"), err
}

// A note is a comment, or a line that the server wrote about what somebody did.
type note struct {
	ID        int64
	Body      string
	Author    account
	System    bool
	CreatedAt time.Time `json:"created_at"`
}

// notes is the path of a merge request's notes, oldest first.
func (p *project) notes(number int64) string {
	return p.path("/merge_requests/%d/notes?sort=asc&order_by=created_at&per_page=100", number)
}

// SetComment implements host.Host.
func (h *Host) SetComment(ctx context.Context, r host.Repo, c *host.Comment) (err error) {
	defer fault.Wrap(&err, "comment on merge request %d of %s", c.Pull, r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return err
	}
	if c.ID == 0 {
		if err := h.findComment(ctx, r, p, c); err != nil {
			return err
		}
	}
	in := map[string]any{"body": body(c.Body)}
	if c.ID != 0 {
		_, err = h.send(ctx, r.Installation, http.MethodPut, p.path("/merge_requests/%d/notes/%d", c.Pull, c.ID), in, nil)
		return err
	}
	var made note
	_, err = h.send(ctx, r.Installation, http.MethodPost, p.path("/merge_requests/%d/notes", c.Pull), in, &made)
	c.ID = made.ID
	return err
}

// findComment looks for a note with the marker by the token's own user: others may have
// written one, too.
func (h *Host) findComment(ctx context.Context, r host.Repo, p project, c *host.Comment) error {
	var self account
	if err := h.get(ctx, r.Installation, "/user", &self); err != nil {
		return err
	}
	return pages(ctx, h, r.Installation, p.notes(c.Pull), func(page []note) {
		for _, n := range page {
			if c.ID == 0 && !n.System && n.Author.ID == self.ID && strings.HasPrefix(n.Body, c.Marker) {
				c.ID = n.ID
			}
		}
	})
}
