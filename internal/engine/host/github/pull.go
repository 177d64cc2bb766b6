package github

import (
	"context"
	"strings"

	api "github.com/google/go-github/v89/github"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
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
		out = pull(p)
		return resp, nil
	})
	return out, err
}

func pull(p *api.PullRequest) host.Pull {
	from, to := p.GetHead().GetRepo().GetID(), p.GetBase().GetRepo().GetID()
	return host.Pull{
		Number: int64(p.GetNumber()), Title: p.GetTitle(), URL: p.GetHTMLURL(), Head: p.GetHead().GetSHA(),
		Base: p.GetBase().GetRef(),
		Fork: from == 0 || from != to, Draft: p.GetDraft(), Closed: p.GetState() != "open",
		Merged:    p.GetMerged() || p.MergedAt != nil, // lists have the time only
		CreatedAt: p.GetCreatedAt().UTC(),
	}
}

// OpenPulls implements host.Host.
func (h *Host) OpenPulls(ctx context.Context, r host.Repo) (open []host.Pull, complete bool, err error) {
	defer fault.Wrap(&err, "open pull requests of %s", r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return nil, false, err
	}
	complete, err = h.somePages(ctx, r.ID, host.MaxPullPages, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := c.PullRequests.List(ctx, owner, name, &api.PullRequestListOptions{
			ListOptions: page, State: "open", Sort: "updated", Direction: "desc",
		})
		for _, p := range list {
			open = append(open, pull(p))
		}
		return resp, err
	})
	return open, complete, err
}

// OpenPull implements host.Host.
func (h *Host) OpenPull(ctx context.Context, r host.Repo, n host.NewPull) (out host.Pull, err error) {
	defer fault.Wrap(&err, "pull request of %s in %s", n.Branch, r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return out, err
	}
	found := false
	err = h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		list, resp, err := c.PullRequests.List(ctx, owner, name, &api.PullRequestListOptions{State: "all", Head: owner + ":" + n.Branch})
		for _, p := range list {
			if p.GetHead().GetRef() == n.Branch && !found {
				out, found = pull(p), true
			}
		}
		return resp, err
	})
	if err != nil || found {
		return out, err
	}
	err = h.write(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		made, resp, err := c.PullRequests.Create(ctx, owner, name, &api.NewPullRequest{
			Title: &n.Title, Head: &n.Branch, Base: &n.Base, Body: new(text.EllipsisBytes(n.Body, maxSummary)),
		})
		if err == nil {
			out = pull(made)
		}
		return resp, err
	})
	return out, err
}

// CommitFile implements host.Host. The branch is created last: until then nobody
// sees the commit.
func (h *Host) CommitFile(ctx context.Context, r host.Repo, c host.FileCommit) (sha string, err error) {
	defer fault.Wrap(&err, "commit to %s", r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return "", err
	}
	there, err := h.Resolve(ctx, r, "refs/heads/"+c.Branch)
	if !fault.Is(err, fault.NotFound) {
		return there.SHA, err
	}
	var tree string
	err = h.call(ctx, r.ID, func(client *api.Client) (*api.Response, error) {
		_, _, resp, err := client.Repositories.GetContents(ctx, owner, name, c.Path, &api.RepositoryContentGetOptions{Ref: c.Base})
		if err != nil {
			return resp, err
		}
		base, resp, err := client.Git.GetCommit(ctx, owner, name, c.Base)
		tree = base.GetTree().GetSHA()
		return resp, err
	})
	if err != nil {
		return "", err
	}
	return sha, h.write(ctx, r.ID, func(client *api.Client) (*api.Response, error) {
		made, resp, err := client.Git.CreateTree(ctx, owner, name, tree, []*api.TreeEntry{
			{Path: &c.Path, Mode: new("100644"), Type: new("blob"), Content: &c.Content},
		})
		if err != nil {
			return resp, err
		}
		commit, resp, err := client.Git.CreateCommit(ctx, owner, name, api.Commit{
			Message: &c.Message, Tree: made, Parents: []*api.Commit{{SHA: &c.Base}},
		}, nil)
		if err != nil {
			return resp, err
		}
		sha = commit.GetSHA()
		_, resp, err = client.Git.CreateRef(ctx, owner, name, api.CreateRef{Ref: "refs/heads/" + c.Branch, SHA: sha})
		return resp, err
	})
}

// File implements host.Host.
func (h *Host) File(ctx context.Context, r host.Repo, commit, path string, limit int64) (content []byte, err error) {
	defer fault.Wrap(&err, "file %s of %s at %s", path, r.FullName, commit)
	owner, name, err := splitOwned(r)
	if err != nil {
		return nil, err
	}
	err = h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		file, _, resp, err := c.Repositories.GetContents(ctx, owner, name, path, &api.RepositoryContentGetOptions{Ref: commit})
		switch {
		case err != nil:
			return resp, err
		case file.GetType() != "file":
			return resp, host.ErrNoFile(path)
		case int64(file.GetSize()) > limit:
			return resp, host.ErrLargeFile(path, limit)
		}
		text, err := file.GetContent()
		if content = []byte(text); err == nil && int64(len(content)) > limit {
			err = host.ErrLargeFile(path, limit)
		}
		return resp, err
	})
	return content, err
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
