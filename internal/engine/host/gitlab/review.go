package gitlab

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// ofCommit lists the merge requests that have a commit, or that were merged by it.
func (h *Host) ofCommit(ctx context.Context, at host.Installation, p project, commit string) (all []mergeRequest, err error) {
	return all, h.get(ctx, at, p.path("/repository/commits/%s/merge_requests?per_page=100", commit), &all)
}

// made reports whether the merge made a commit: a merge commit, also of a merge train; the
// commit of a squash that needed none; or the head itself, where the branch was only moved
// on to it.
func (m *mergeRequest) made(commit string) bool {
	if m.State != "merged" {
		return false
	}
	switch {
	case m.MergeCommit != "":
		return m.MergeCommit == commit
	case m.SquashCommit != "":
		return m.SquashCommit == commit
	}
	return m.SHA == commit
}

// MergedPull implements host.Host.
func (h *Host) MergedPull(ctx context.Context, r host.Repo, commit string) (out host.MergedPull, err error) {
	defer fault.Wrap(&err, "merge request of %s in %s", commit, r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return out, err
	}
	if !host.IsSHA(commit) {
		return out, host.ErrNoMergedPull(commit)
	}
	all, err := h.ofCommit(ctx, r.Installation, p, commit)
	if fault.Is(err, fault.NotFound) { // no such commit
		return out, host.ErrNoMergedPull(commit)
	}
	if err != nil {
		return out, err
	}
	is := func(m mergeRequest) bool { return m.made(commit) }
	i := slices.IndexFunc(all, is)
	if i < 0 { // the commits of a squash and of a merge train are indexed later than their push is delivered
		all = nil
		path := p.path("/merge_requests?state=merged&order_by=updated_at&sort=desc&per_page=100")
		if err := h.get(ctx, r.Installation, path, &all); err != nil {
			return out, err
		}
		if i = slices.IndexFunc(all, is); i < 0 {
			return out, host.ErrNoMergedPull(commit)
		}
	}
	m, err := h.mergeRequest(ctx, r, p, all[i].Number)
	if err != nil {
		return out, err
	}
	return host.MergedPull{Pull: m.out(), RepoID: m.TargetID, Commit: commit, MergeBase: m.DiffRefs.Base}, nil
}

// A version is the head of a merge request from a push on.
type version struct {
	Head      string    `json:"head_commit_sha"`
	CreatedAt time.Time `json:"created_at"`
}

// approved and the others are what the server writes when somebody does that.
const (
	approved   = "approved this merge request"
	unapproved = "unapproved this merge request"
	requested  = "requested changes"
)

// Reviews implements host.Host. GitLab knows who approves now, but neither since when nor
// of what: its notes have the time, and the versions of the merge request the head then.
func (h *Host) Reviews(ctx context.Context, r host.Repo, number int64) (all []host.Review, err error) {
	defer fault.Wrap(&err, "reviews of merge request %d of %s", number, r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return nil, err
	}
	m, err := h.mergeRequest(ctx, r, p, number)
	if err != nil {
		return nil, err
	}
	var now struct {
		By []struct{ User account } `json:"approved_by"`
	}
	// Before the notes: whoever approves in between is not counted yet.
	if err := h.get(ctx, r.Installation, p.path("/merge_requests/%d/approvals", number), &now); err != nil {
		return nil, err
	}
	complete, err := somePages(ctx, h, r.Installation, p.notes(number), host.MaxReviewPages, func(page []note) {
		for _, n := range page {
			one := n.review()
			one.URL = fmt.Sprintf("%s#note_%d", m.WebURL, n.ID)
			approves := func(by struct{ User account }) bool { return by.User.ID == one.Account }
			if one.State == host.ReviewApproved && !slices.ContainsFunc(now.By, approves) {
				one.State = host.ReviewDismissed // e.g. by a push, of which there is no note
			}
			all = append(all, one)
		}
	})
	if err != nil {
		return nil, err
	}
	if !complete {
		return nil, host.ErrTooManyReviews()
	}
	var versions []version
	path := p.path("/merge_requests/%d/versions?per_page=100", number)
	complete, err = somePages(ctx, h, r.Installation, path, host.MaxReviewPages, func(page []version) {
		versions = append(versions, page...)
	})
	if err == nil && !complete {
		err = host.ErrTooManyReviews()
	}
	slices.SortStableFunc(versions, func(a, b version) int { return b.CreatedAt.Compare(a.CreatedAt) }) // newest first
	for i := range all {
		at := slices.IndexFunc(versions, func(v version) bool { return v.CreatedAt.Before(all[i].At) })
		if at >= 0 {
			all[i].Commit = versions[at].Head
		}
	}
	return all, err
}

// review reads a note. People can write the same words, but not as the system.
func (n *note) review() host.Review {
	out := host.Review{ID: n.ID, State: host.ReviewOther, At: n.CreatedAt.UTC()}
	if n.Author.Username != "ghost" { // who stands for accounts that are gone
		out.Account, out.Login = n.Author.ID, n.Author.Username
	}
	if !n.System {
		return out
	}
	switch n.Body {
	case approved:
		out.State = host.ReviewApproved
	case unapproved:
		out.State = host.ReviewDismissed
	case requested:
		out.State = host.ReviewChanges
	}
	return out
}

// maxEmails bounds the accounts that are looked up.
const maxEmails = 50

// pushed is how the server's note of commits that were pushed begins and goes on.
const pushed = "added "

// Authors implements host.Host. GitLab does not name the accounts of commits. They are who
// opened the merge request, who pushed to it since, and the accounts that are found by the
// addresses of the commits.
func (h *Host) Authors(ctx context.Context, r host.Repo, number int64) (accounts []int64, err error) {
	defer fault.Wrap(&err, "authors of merge request %d of %s", number, r.FullName)
	p, err := h.locate(ctx, r)
	if err != nil {
		return nil, err
	}
	m, err := h.mergeRequest(ctx, r, p, number)
	if err != nil {
		return nil, err
	}
	accounts = append(accounts, m.Author.ID)
	complete, err := somePages(ctx, h, r.Installation, p.notes(number), host.MaxReviewPages, func(page []note) {
		for _, n := range page {
			if n.System && strings.HasPrefix(n.Body, pushed) && strings.Contains(n.Body, " commit") {
				accounts = append(accounts, n.Author.ID)
			}
		}
	})
	if err == nil && !complete {
		err = host.ErrTooManyReviews()
	}
	if err != nil {
		return nil, err
	}
	emails, err := h.emails(ctx, r, p, number)
	if err != nil {
		return nil, err
	}
	for _, email := range emails {
		found, err := h.accountsOf(ctx, r.Installation, email)
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, found...)
	}
	return unique(accounts), nil
}

// emails are the addresses in the commits of a merge request.
func (h *Host) emails(ctx context.Context, r host.Repo, p project, number int64) (all []string, err error) {
	type commit struct {
		Author    string `json:"author_email"`
		Committer string `json:"committer_email"`
	}
	path := p.path("/merge_requests/%d/commits?per_page=100", number)
	complete, err := somePages(ctx, h, r.Installation, path, host.MaxReviewPages, func(page []commit) {
		for _, c := range page {
			all = append(all, strings.ToLower(c.Author), strings.ToLower(c.Committer))
		}
	})
	all = unique(all)
	if err == nil && (!complete || len(all) > maxEmails) {
		err = host.ErrTooManyReviews()
	}
	return all, err
}

// accountsOf finds the accounts of an address: GitLab's own for private use begins with the
// account's number, and a search finds public ones. It may find more than the one, and
// those do not approve, either.
func (h *Host) accountsOf(ctx context.Context, at host.Installation, email string) (accounts []int64, err error) {
	local, domain, ok := strings.Cut(email, "@")
	if !ok {
		return nil, nil
	}
	if number, _, private := strings.Cut(local, "-"); private && strings.HasPrefix(domain, "users.noreply.") {
		if id, err := strconv.ParseInt(number, 10, 64); err == nil && id > 0 {
			accounts = append(accounts, id)
		}
	}
	var found []account
	err = h.get(ctx, at, "/users?per_page=100&search="+url.QueryEscape(email), &found)
	for _, a := range found {
		accounts = append(accounts, a.ID)
	}
	return accounts, err
}

// unique drops repeated and empty values, and keeps the order.
func unique[T comparable](all []T) []T {
	var out []T
	for _, one := range all {
		var zero T
		if one != zero && !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}
