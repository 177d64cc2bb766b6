package github

import (
	"context"
	"slices"

	api "github.com/google/go-github/v89/github"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// maxPullCommits is how many commits of a pull request GitHub lists.
const maxPullCommits = 250

// MergedPull implements host.Host.
func (h *Host) MergedPull(ctx context.Context, r host.Repo, commit string) (out host.MergedPull, err error) {
	defer fault.Wrap(&err, "pull request of %s in %s", commit, r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return out, err
	}
	if !host.IsSHA(commit) {
		return out, host.ErrNoMergedPull(commit)
	}
	var found *api.PullRequest
	choose := func(list []*api.PullRequest) {
		for _, p := range list {
			if p.MergedAt != nil && p.GetMergeCommitSHA() == commit {
				found = p
			}
		}
	}
	err = h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		list, resp, err := c.PullRequests.ListPullRequestsWithCommit(ctx, owner, name, commit, &api.ListOptions{PerPage: 100})
		choose(list)
		return resp, err
	})
	if err == nil && found == nil {
		// GitHub knows that only of commits on the default branch.
		err = h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
			list, resp, err := c.PullRequests.List(ctx, owner, name, &api.PullRequestListOptions{
				ListOptions: api.ListOptions{PerPage: 100}, State: "closed", Sort: "updated", Direction: "desc",
			})
			choose(list)
			return resp, err
		})
	}
	if fault.Is(err, fault.Malformed) || err == nil && found == nil { // 422: no such commit
		return out, host.ErrNoMergedPull(commit)
	}
	if err != nil {
		return out, err
	}
	out = host.MergedPull{Pull: pull(found), RepoID: found.GetBase().GetRepo().GetID(), Commit: commit}
	out.MergeBase, err = h.mergeBase(ctx, r, out)
	return out, err
}

// mergeBase returns where the changes of a merged pull request begin: the commit at which
// its head left the branch that the merge was made on. That is not known of a head that
// was pushed to the branch itself.
func (h *Host) mergeBase(ctx context.Context, r host.Repo, m host.MergedPull) (sha string, err error) {
	if m.Commit == m.Head {
		return "", nil
	}
	owner, name := r.Split()
	return sha, h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		merge, resp, err := c.Git.GetCommit(ctx, owner, name, m.Commit)
		if err != nil || len(merge.Parents) == 0 {
			return resp, err
		}
		compared, resp, err := c.Repositories.CompareCommits(ctx, owner, name, merge.Parents[0].GetSHA(), m.Head, &api.ListOptions{PerPage: 1})
		sha = compared.GetMergeBaseCommit().GetSHA()
		return resp, err
	})
}

// Reviews implements host.Host.
func (h *Host) Reviews(ctx context.Context, r host.Repo, number int64) (all []host.Review, err error) {
	defer fault.Wrap(&err, "reviews of pull request %d of %s", number, r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return nil, err
	}
	complete, err := h.somePages(ctx, r.ID, host.MaxReviewPages, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := c.PullRequests.ListReviews(ctx, owner, name, int(number), &page)
		for _, one := range list {
			if one.GetState() != "PENDING" {
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

func review(r *api.PullRequestReview) host.Review {
	state, ok := map[string]host.ReviewState{
		"APPROVED": host.ReviewApproved, "CHANGES_REQUESTED": host.ReviewChanges, "DISMISSED": host.ReviewDismissed,
	}[r.GetState()]
	if !ok {
		state = host.ReviewOther
	}
	return host.Review{
		ID: r.GetID(), Account: r.GetUser().GetID(), Login: r.GetUser().GetLogin(), State: state, Commit: r.GetCommitID(),
		URL: r.GetHTMLURL(), At: r.GetSubmittedAt().UTC(),
	}
}

// Authors implements host.Host.
func (h *Host) Authors(ctx context.Context, r host.Repo, number int64) (accounts []int64, err error) {
	defer fault.Wrap(&err, "authors of pull request %d of %s", number, r.FullName)
	owner, name, err := splitOwned(r)
	if err != nil {
		return nil, err
	}
	err = h.call(ctx, r.ID, func(c *api.Client) (*api.Response, error) {
		p, resp, err := c.PullRequests.Get(ctx, owner, name, int(number))
		accounts = append(accounts, p.GetUser().GetID())
		if err == nil && p.GetCommits() > maxPullCommits {
			err = host.ErrTooManyReviews()
		}
		return resp, err
	})
	if err != nil {
		return nil, err
	}
	err = h.pages(ctx, r.ID, func(c *api.Client, page api.ListOptions) (*api.Response, error) {
		list, resp, err := c.PullRequests.ListCommits(ctx, owner, name, int(number), &page)
		for _, commit := range list {
			accounts = append(accounts, commit.GetAuthor().GetID(), commit.GetCommitter().GetID())
		}
		return resp, err
	})
	return slices.DeleteFunc(accounts, func(id int64) bool { return id == 0 }), err
}
