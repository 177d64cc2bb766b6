package gitea

import (
	"context"
	"strings"

	api "code.gitea.io/sdk/gitea"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/text"
)

// maxComment is in bytes.
const maxComment = 65_535

// Pull implements host.Host.
func (h *Host) Pull(ctx context.Context, r host.Repo, number int64) (out host.Pull, err error) {
	defer fault.Wrap(&err, "pull request %d of %s", number, r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return out, err
	}
	err = h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
		p, resp, err := c.GetPullRequest(at.Owner, at.Name, number)
		if err != nil {
			return resp, err
		}
		if p.Head == nil || p.Base == nil {
			return resp, fault.New(fault.BadGateway, "the code host's pull request has no branches")
		}
		out = host.Pull{
			Number: number, Title: p.Title, URL: p.HTMLURL, Head: p.Head.Sha, Base: p.Base.Ref,
			Fork: p.Head.RepoID != p.Base.RepoID, Draft: p.Draft, Closed: p.State != api.StateOpen,
		}
		return resp, nil
	})
	return out, err
}

// PullFiles implements host.Host.
func (h *Host) PullFiles(ctx context.Context, r host.Repo, number int64) (paths []string, complete bool, err error) {
	defer fault.Wrap(&err, "files of pull request %d of %s", number, r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return nil, false, err
	}
	err = h.pages(ctx, r.Installation, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := c.ListPullRequestFiles(at.Owner, at.Name, number, api.ListPullRequestFilesOptions{ListOptions: page})
		for _, f := range list {
			paths = append(paths, f.Filename)
			if f.PreviousFilename != "" {
				paths = append(paths, f.PreviousFilename)
			}
		}
		return resp, err
	})
	return paths, true, err
}

// SetComment implements host.Host.
func (h *Host) SetComment(ctx context.Context, r host.Repo, c *host.Comment) (err error) {
	defer fault.Wrap(&err, "comment on pull request %d of %s", c.Pull, r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return err
	}
	if c.ID == 0 {
		if err := h.findComment(ctx, r, at, c); err != nil {
			return err
		}
	}
	body := text.EllipsisBytes(c.Body, maxComment)
	return h.call(ctx, r.Installation, func(client *api.Client) (*api.Response, error) {
		if c.ID != 0 {
			_, resp, err := client.EditIssueComment(at.Owner, at.Name, c.ID, api.EditIssueCommentOption{Body: body})
			return resp, err
		}
		made, resp, err := client.CreateIssueComment(at.Owner, at.Name, c.Pull, api.CreateIssueCommentOption{Body: body})
		if err == nil {
			c.ID = made.ID
		}
		return resp, err
	})
}

// findComment looks for a comment with the marker by the token's own user: others
// may have written one, too.
func (h *Host) findComment(ctx context.Context, r host.Repo, at host.Repository, c *host.Comment) error {
	var self string
	err := h.call(ctx, r.Installation, func(client *api.Client) (*api.Response, error) {
		user, resp, err := client.GetMyUserInfo()
		if err == nil {
			self = user.UserName
		}
		return resp, err
	})
	if err != nil {
		return err
	}
	return h.pages(ctx, r.Installation, func(client *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := client.ListIssueComments(at.Owner, at.Name, c.Pull, api.ListIssueCommentOptions{ListOptions: page})
		for _, one := range list {
			if c.ID == 0 && one.Poster != nil && one.Poster.UserName == self && strings.HasPrefix(one.Body, c.Marker) {
				c.ID = one.ID
			}
		}
		return resp, err
	})
}
