package gitea

import (
	"context"
	"encoding/base64"
	"strings"

	api "code.gitea.io/sdk/gitea"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
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
		out, err = pull(p)
		return resp, err
	})
	return out, err
}

func pull(p *api.PullRequest) (host.Pull, error) {
	if p.Head == nil || p.Base == nil || p.Created == nil {
		return host.Pull{}, fault.New(fault.BadGateway, "the code host's pull request has no branches or no date")
	}
	return host.Pull{
		Number: p.Index, Title: p.Title, URL: p.HTMLURL, Head: p.Head.Sha, Base: p.Base.Ref,
		Fork: p.Head.RepoID != p.Base.RepoID, Draft: p.Draft, Closed: p.State != api.StateOpen, Merged: p.HasMerged,
		CreatedAt: p.Created.UTC(),
	}, nil
}

// OpenPulls implements host.Host.
func (h *Host) OpenPulls(ctx context.Context, r host.Repo) (open []host.Pull, complete bool, err error) {
	defer fault.Wrap(&err, "open pull requests of %s", r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return nil, false, err
	}
	complete, err = h.somePages(ctx, r.Installation, host.MaxPullPages,
		func(c *api.Client, page api.ListOptions) (*api.Response, error) {
			list, resp, err := c.ListRepoPullRequests(at.Owner, at.Name, api.ListPullRequestsOptions{
				ListOptions: page, State: api.StateOpen, Sort: "recentupdate",
			})
			for _, p := range list {
				one, problem := pull(p)
				if problem != nil {
					return resp, problem
				}
				open = append(open, one)
			}
			return resp, err
		})
	return open, complete, err
}

// OpenPull implements host.Host. One that a retry must find is among those that
// changed last.
func (h *Host) OpenPull(ctx context.Context, r host.Repo, n host.NewPull) (out host.Pull, err error) {
	defer fault.Wrap(&err, "pull request of %s in %s", n.Branch, r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return out, err
	}
	found := false
	err = h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
		list, resp, err := c.ListRepoPullRequests(at.Owner, at.Name, api.ListPullRequestsOptions{
			ListOptions: api.ListOptions{Page: 1, PageSize: pageSize}, State: api.StateAll, Sort: "recentupdate",
		})
		for _, p := range list {
			if p.Head != nil && p.Head.Ref == n.Branch && !found {
				found = true
				out, err = pull(p)
			}
		}
		return resp, err
	})
	if err != nil || found {
		return out, err
	}
	return out, h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
		made, resp, err := c.CreatePullRequest(at.Owner, at.Name, api.CreatePullRequestOption{
			Title: n.Title, Head: n.Branch, Base: n.Base, Body: text.EllipsisBytes(n.Body, maxComment),
		})
		if err == nil {
			out, err = pull(made)
		}
		return resp, err
	})
}

// File implements host.Host.
func (h *Host) File(ctx context.Context, r host.Repo, commit, path string, limit int64) (content []byte, err error) {
	defer fault.Wrap(&err, "file %s of %s at %s", path, r.FullName, commit)
	at, err := h.locate(ctx, r)
	if err != nil {
		return nil, err
	}
	err = h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
		file, resp, err := c.GetContents(at.Owner, at.Name, commit, path)
		switch {
		case err != nil:
			return resp, err
		case file.Type != "file" || file.Content == nil:
			return resp, host.ErrNoFile(path)
		case file.Size > limit || int64(base64.StdEncoding.DecodedLen(len(*file.Content))) > limit+2: // padding
			return resp, host.ErrLargeFile(path, limit)
		}
		content, err = base64.StdEncoding.DecodeString(*file.Content)
		return resp, err
	})
	return content, err
}

// CommitFile implements host.Host. The file's own hash is sent along, so that the
// server refuses a change of a file that somebody changed meanwhile.
func (h *Host) CommitFile(ctx context.Context, r host.Repo, c host.FileCommit) (sha string, err error) {
	defer fault.Wrap(&err, "commit to %s", r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return "", err
	}
	sha, err = h.commitOf(ctx, r.Installation, at, "refs/heads/"+c.Branch)
	if !fault.Is(err, fault.NotFound) {
		return sha, err
	}
	return sha, h.call(ctx, r.Installation, func(client *api.Client) (*api.Response, error) {
		file, resp, err := client.GetContents(at.Owner, at.Name, c.Base, c.Path)
		if err != nil {
			return resp, err
		}
		made, resp, err := client.UpdateFile(at.Owner, at.Name, c.Path, api.UpdateFileOptions{
			FileOptions: api.FileOptions{Message: c.Message, BranchName: c.Onto, NewBranchName: c.Branch},
			SHA:         file.SHA, Content: base64.StdEncoding.EncodeToString([]byte(c.Content)),
		})
		if err == nil && made.Commit == nil {
			err = fault.New(fault.BadGateway, "the code host does not say what it committed")
		}
		if err == nil {
			sha = made.Commit.SHA
		}
		return resp, err
	})
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
