package github

import (
	"context"
	"strings"

	api "github.com/google/go-github/v89/github"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// maxPullFiles is how many files of a pull request GitHub lists.
const maxPullFiles = 3000

// Pull implements host.Host.
func (h *Host) Pull(ctx context.Context, r host.Repo, number int64) (out host.Pull, err error) {
	defer fault.Wrap(&err, "pull request %d of %s", number, r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return out, err
	}
	err = h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		p, resp, err := c.PullRequests.Get(ctx, owner, name, int(number))
		if err != nil {
			return resp, err
		}
		from, to := p.GetHead().GetRepo().GetID(), p.GetBase().GetRepo().GetID()
		out = host.Pull{
			Number: number, Title: p.GetTitle(), URL: p.GetHTMLURL(), Head: p.GetHead().GetSHA(), Base: p.GetBase().GetRef(),
			Fork: from == 0 || from != to, Draft: p.GetDraft(), Closed: p.GetState() != "open",
		}
		return resp, nil
	})
	return out, err
}

// PullFiles implements host.Host.
func (h *Host) PullFiles(ctx context.Context, r host.Repo, number int64) (paths []string, complete bool, err error) {
	defer fault.Wrap(&err, "files of pull request %d of %s", number, r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return nil, false, err
	}
	files := 0
	err = h.pages(ctx, r.ID, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := c.PullRequests.ListFiles(ctx, owner, name, int(number), &page)
		for _, f := range list {
			files++
			paths = append(paths, f.GetFilename())
			if f.GetPreviousFilename() != "" {
				paths = append(paths, f.GetPreviousFilename())
			}
		}
		return resp, err
	})
	return paths, files < maxPullFiles, err
}

// SetComment implements host.Host.
func (h *Host) SetComment(ctx context.Context, r host.Repo, c *host.Comment) (err error) {
	defer fault.Wrap(&err, "comment on pull request %d of %s", c.Pull, r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return err
	}
	if c.ID == 0 {
		if err := h.findComment(ctx, r, c); err != nil {
			return err
		}
	}
	body := &api.IssueComment{Body: new(text.EllipsisBytes(c.Body, maxSummary))}
	return h.write(ctx, r.ID, func(client *api.Client) (*api.Response, error) {
		if c.ID != 0 {
			_, resp, err := client.Issues.EditComment(ctx, owner, name, c.ID, body)
			return resp, err
		}
		made, resp, err := client.Issues.CreateComment(ctx, owner, name, int(c.Pull), body)
		if err == nil {
			c.ID = made.GetID()
		}
		return resp, err
	})
}

// findComment looks for a comment with the marker. A person may have written one,
// too, so it must be an app's.
func (h *Host) findComment(ctx context.Context, r host.Repo, c *host.Comment) error {
	owner, name := r.Split()
	return h.pages(ctx, r.ID, func(client *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := client.Issues.ListComments(ctx, owner, name, int(c.Pull), &api.IssueListCommentsOptions{ListOptions: page})
		for _, one := range list {
			if c.ID == 0 && one.GetUser().GetType() == "Bot" && strings.HasPrefix(one.GetBody(), c.Marker) {
				c.ID = one.GetID()
			}
		}
		return resp, err
	})
}
