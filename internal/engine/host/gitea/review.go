package gitea

import (
	"context"

	api "code.gitea.io/sdk/gitea"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// MergedPull implements host.Host.
func (h *Host) MergedPull(ctx context.Context, r host.Repo, commit string) (out host.MergedPull, err error) {
	defer fault.Wrap(&err, "pull request of %s in %s", commit, r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return out, err
	}
	if !host.IsSHA(commit) {
		return out, host.ErrNoMergedPull(commit)
	}
	var found *api.PullRequest
	err = h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
		p, resp, err := c.GetCommitPullRequest(at.Owner, at.Name, commit)
		if err == nil {
			found = p
		}
		return resp, err
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return out, err
	}
	if found == nil || !found.HasMerged || found.Base == nil || found.MergedCommitID == nil || *found.MergedCommitID != commit {
		return out, host.ErrNoMergedPull(commit)
	}
	out = host.MergedPull{RepoID: found.Base.RepoID, Commit: commit, MergeBase: found.MergeBase}
	out.Pull, err = pull(found)
	return out, err
}

// Reviews implements host.Host.
func (h *Host) Reviews(ctx context.Context, r host.Repo, number int64) (all []host.Review, err error) {
	defer fault.Wrap(&err, "reviews of pull request %d of %s", number, r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return nil, err
	}
	complete, err := h.somePages(ctx, r.Installation, host.MaxReviewPages,
		func(c *api.Client, page api.ListOptions) (*api.Response, error) {
			list, resp, err := c.ListPullReviews(at.Owner, at.Name, number, api.ListPullReviewsOptions{ListOptions: page})
			for _, one := range list {
				if one.State != api.ReviewStatePending {
					all = append(all, review(one))
				}
			}
			return resp, err
		})
	if err == nil && !complete {
		err = host.ErrTooManyReviews()
	}
	return all, err
}

// review reads a review. Gitea keeps what it said, and that it was dismissed, apart.
func review(r *api.PullReview) host.Review {
	out := host.Review{ID: r.ID, State: host.ReviewOther, Commit: r.CommitID, URL: r.HTMLURL, At: r.Submitted.UTC()}
	if r.Reviewer != nil && r.Reviewer.ID > 0 { // an account that is gone has -1
		out.Account, out.Login = r.Reviewer.ID, r.Reviewer.UserName
	}
	switch r.State {
	case api.ReviewStateApproved:
		out.State = host.ReviewApproved
	case api.ReviewStateRequestChanges:
		out.State = host.ReviewChanges
	case api.ReviewStatePending, api.ReviewStateComment, api.ReviewStateRequestReview, api.ReviewStateUnknown:
		return out
	}
	if r.Dismissed {
		out.State = host.ReviewDismissed
	}
	return out
}

// Authors implements host.Host.
func (h *Host) Authors(ctx context.Context, r host.Repo, number int64) (accounts []int64, err error) {
	defer fault.Wrap(&err, "authors of pull request %d of %s", number, r.FullName)
	at, err := h.locate(ctx, r)
	if err != nil {
		return nil, err
	}
	add := func(u *api.User) {
		if u != nil && u.ID > 0 {
			accounts = append(accounts, u.ID)
		}
	}
	err = h.call(ctx, r.Installation, func(c *api.Client) (*api.Response, error) {
		p, resp, err := c.GetPullRequest(at.Owner, at.Name, number)
		if err == nil {
			add(p.Poster)
		}
		return resp, err
	})
	if err != nil {
		return nil, err
	}
	complete, err := h.somePages(ctx, r.Installation, host.MaxReviewPages,
		func(c *api.Client, page api.ListOptions) (*api.Response, error) {
			list, resp, err := c.ListPullRequestCommits(at.Owner, at.Name, number,
				api.ListPullRequestCommitsOptions{ListOptions: page})
			for _, commit := range list {
				add(commit.Author)
				add(commit.Committer)
			}
			return resp, err
		})
	if err == nil && !complete {
		err = host.ErrTooManyReviews()
	}
	return accounts, err
}
