package github

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// maxPullCommits is how many commits of a pull request GitHub lists.
const maxPullCommits = 250

// MergedPull implements host.Host.
func (h *Host) MergedPull(ctx context.Context, r host.Repo, commit string) (out host.MergedPull, err error) {
	defer fault.Wrap(&err, "pull request of %s in %s", commit, r.FullName)
	if !host.IsSHA(commit) {
		return out, host.ErrNoMergedPull(commit)
	}
	for _, path := range []string{
		"/commits/" + commit + "/pulls?per_page=100", // GitHub knows them only of commits on the default branch
		"/pulls?state=closed&sort=updated&direction=desc&per_page=100",
	} {
		var list []pull
		err := h.get(ctx, r, path, &list)
		if fault.Is(err, fault.Malformed) { // 422: no such commit
			break
		}
		if err != nil {
			return out, err
		}
		i := slices.IndexFunc(list, func(p pull) bool { return p.MergedAt != nil && p.MergeCommitSHA == commit })
		if i >= 0 {
			out = host.MergedPull{Pull: list[i].out(), RepoID: list[i].Base.Repo.ID, Commit: commit}
			out.MergeBase, err = h.mergeBase(ctx, r, out)
			return out, err
		}
	}
	return out, host.ErrNoMergedPull(commit)
}

// mergeBase returns where the changes of a merged pull request begin: the commit at which
// its head left the branch that the merge was made on. That is not known of a head that
// was pushed to the branch itself.
func (h *Host) mergeBase(ctx context.Context, r host.Repo, m host.MergedPull) (sha string, err error) {
	if m.Commit == m.Head {
		return "", nil
	}
	merge, err := h.gitCommit(ctx, r, m.Commit)
	if err != nil || len(merge.Parents) == 0 {
		return "", err
	}
	var compared struct {
		MergeBase object `json:"merge_base_commit"`
	}
	err = h.get(ctx, r, "/compare/"+merge.Parents[0].SHA+"..."+m.Head+"?per_page=1", &compared)
	return compared.MergeBase.SHA, err
}

// Reviews implements host.Host.
func (h *Host) Reviews(ctx context.Context, r host.Repo, number int64) (all []host.Review, err error) {
	defer fault.Wrap(&err, "reviews of pull request %d of %s", number, r.FullName)
	path := fmt.Sprintf("/pulls/%d/reviews?per_page=100", number)
	complete, err := somePages(ctx, h, r, path, host.MaxReviewPages, func(page []review) {
		for _, one := range page {
			if one.State != "PENDING" {
				all = append(all, one.out())
			}
		}
	})
	if err == nil && !complete {
		err = host.ErrTooManyReviews()
	}
	return all, err
}

type review struct {
	ID          int64
	User        account
	State       string
	CommitID    string    `json:"commit_id"`
	HTMLURL     string    `json:"html_url"`
	SubmittedAt time.Time `json:"submitted_at"`
}

func (r *review) out() host.Review {
	state, ok := map[string]host.ReviewState{
		"APPROVED": host.ReviewApproved, "CHANGES_REQUESTED": host.ReviewChanges, "DISMISSED": host.ReviewDismissed,
	}[r.State]
	if !ok {
		state = host.ReviewOther
	}
	return host.Review{
		ID: r.ID, Account: r.User.ID, Login: r.User.Login, State: state, Commit: r.CommitID,
		URL: r.HTMLURL, At: r.SubmittedAt.UTC(),
	}
}

// Authors implements host.Host.
func (h *Host) Authors(ctx context.Context, r host.Repo, number int64) (accounts []int64, err error) {
	defer fault.Wrap(&err, "authors of pull request %d of %s", number, r.FullName)
	path := fmt.Sprintf("/pulls/%d", number)
	var p pull
	if err := h.get(ctx, r, path, &p); err != nil {
		return nil, err
	}
	if p.Commits > maxPullCommits {
		return nil, host.ErrTooManyReviews()
	}
	accounts = append(accounts, p.User.ID)
	type commit struct{ Author, Committer account }
	err = pages(ctx, h, r, path+"/commits?per_page=100", func(page []commit) {
		for _, c := range page {
			accounts = append(accounts, c.Author.ID, c.Committer.ID)
		}
	})
	return slices.DeleteFunc(accounts, func(id int64) bool { return id == 0 }), err
}
