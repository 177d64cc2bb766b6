package approvals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

const (
	// lookTimeout is enough for two archives over a slow line.
	lookTimeout = 10 * time.Minute
	// again is short: the look that won has just ended.
	again      = time.Second
	maxIgnored = 20
	maxLogin   = 100 // characters
)

// A reading is one look at the pull request of a candidate. It holds no transaction and no
// lock: reading takes up to lookTimeout.
type reading struct {
	*HostReviews
	connection repohost.Connection
	entry      registry.Entry
	version    registry.Version
	policy     gates.Policy
	commit     string
	last       Sighting
	repo       host.Repo
}

// read asks the code host who approved the candidate. It reports false if no pull request
// made it.
func (r *reading) read(ctx context.Context) (seen Sighting, found bool, err error) {
	seen = Sighting{Looks: r.last.Looks, Digests: maps.Clone(r.last.Digests)}
	seen.Found.Ignored = []Ignored{}
	if seen.Digests == nil {
		seen.Digests = map[string]string{}
	}
	// Cheap checks come first: most looks end before an archive has to be read.
	if r.repo, err = r.Repohost.RepoOf(ctx, r.connection); err != nil {
		return seen, false, err
	}
	// Code hosts without such an API have no reviews to count.
	pull, err := r.Repohost.Host.MergedPull(ctx, r.repo, r.commit)
	if fault.Is(err, fault.NotFound) || errors.Is(err, host.ErrUnsupported) {
		return seen, false, nil
	}
	if err != nil {
		return seen, false, err
	}
	seen.Found.Number, seen.Found.URL = pull.Number, pull.URL
	if seen.Found.Problem = r.elsewhere(pull); seen.Found.Problem != "" {
		return seen, true, nil
	}
	reviews, err := r.Repohost.Host.Reviews(ctx, r.repo, pull.Number)
	if fault.Is(err, fault.TooLarge) {
		seen.Found.Problem = "it has more reviews than are read"
		return seen, true, nil
	}
	if err != nil {
		return seen, true, err
	}
	approved, err := r.attribute(ctx, pull, reviews, &seen)
	if err != nil || len(approved) == 0 {
		return seen, true, err
	}
	if seen.Found.Problem, err = r.compare(ctx, pull, &seen); err != nil || seen.Found.Problem != "" {
		return seen, true, err
	}
	return seen, true, r.count(ctx, pull, approved, &seen)
}

// elsewhere says why a pull request is not one into the connected branch; "" if it is. A merge
// into another repository or branch must not approve what is published here.
func (r *reading) elsewhere(p host.MergedPull) string {
	switch c := r.connection; {
	case !p.Merged || p.Commit != r.commit:
		return "its merge did not make this version"
	case c.RepoID == 0 || p.RepoID != c.RepoID:
		return "it was merged into another repository"
	case p.Base != c.DefaultBranch:
		return fmt.Sprintf("it was merged into %s, and %s is connected", text.Ellipsis(text.PlainLine(p.Base), maxLogin),
			c.DefaultBranch)
	}
	return ""
}

// An approval is the review of a member who may approve.
type approval struct {
	review host.Review
	user   auth.User
}

// latest returns what each account said last, and the accounts in the order in which they
// first spoke. A comment takes nothing back. Code hosts list reviews in their own order, and
// those of deleted accounts have no number.
func latest(reviews []host.Review) []host.Review {
	reviews = slices.Clone(reviews)
	slices.SortStableFunc(reviews, func(a, b host.Review) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	var last []host.Review
	for _, one := range reviews {
		if one.Account == 0 || one.State == host.ReviewOther {
			continue
		}
		i := slices.IndexFunc(last, func(r host.Review) bool { return r.Account == one.Account })
		if i < 0 {
			last = append(last, one)
			continue
		}
		last[i] = one
	}
	return last
}

// attribute returns the approvals of members who may approve, of the head that was merged.
func (r *reading) attribute(
	ctx context.Context, p host.MergedPull, reviews []host.Review, seen *Sighting,
) (all []approval, err error) {
	var approving []host.Review
	var accounts []string
	for _, one := range latest(reviews) {
		if one.State == host.ReviewApproved {
			approving = append(approving, one)
			accounts = append(accounts, strconv.FormatInt(one.Account, 10))
		}
	}
	if len(approving) == 0 {
		return nil, nil
	}
	// Accounts are matched by number: a name can be given up and registered by somebody else.
	members, err := auth.MembersByAccount(ctx, r.DB, r.entry.OrgID, r.issuers(), accounts)
	if err != nil {
		return nil, err
	}
	for i, one := range approving {
		user, known := members[accounts[i]]
		reason := ""
		switch {
		// Whoever approved an earlier commit has not seen what was pushed after it.
		case one.Commit != p.Head:
			reason = "approved an earlier commit"
		case !known:
			reason = "is not the account of a member who signs in with " + r.CodeHost
		case PublishedBy(r.version, user.ID) && !r.policy.SelfApproval:
			reason = "connected the repository, or chose its branch or tags, so the version counts as their own"
		default:
			may, err := r.Approvals.Approvers.MayApprove(ctx, r.DB, r.entry.ID,
				access.Caller{OrgID: r.entry.OrgID, UserID: user.ID, Role: user.Role})
			if err != nil {
				return nil, err
			}
			if !may || user.Machine() {
				reason = "may not approve versions of " + r.entry.Name
			}
		}
		if reason == "" {
			all = append(all, approval{one, user})
			continue
		}
		ignore(seen, one, reason)
	}
	return all, nil
}

// ignore notes why a review doesn't count. Names come from outside, so they are made plain
// text.
func ignore(seen *Sighting, one host.Review, reason string) {
	if len(seen.Found.Ignored) < maxIgnored {
		login := text.Ellipsis(text.PlainLine(one.Login), maxLogin)
		seen.Found.Ignored = append(seen.Found.Ignored, Ignored{Login: login, Reason: reason})
	}
}

// compare says why the reviewers have not seen all that the version changes; "" if they
// have. The merge must have made of the head what it was, and the changes must begin at
// content that people have let through before.
func (r *reading) compare(ctx context.Context, p host.MergedPull, seen *Sighting) (problem string, err error) {
	if p.MergeBase == "" {
		return "the code host does not say where its changes begin", nil
	}
	// A merge may resolve conflicts or squash: only equal files prove that the head was
	// published.
	head, err := r.digest(ctx, p.Head, seen)
	if err != nil {
		return "", err
	}
	if head != r.version.TreeDigest {
		return "the merge made another content than its head has", nil
	}
	base, err := r.digest(ctx, p.MergeBase, seen)
	switch {
	case err != nil:
		return "", err
	case base == r.version.TreeDigest:
		return "it does not change the skill", nil
	// The skill is new, so the pull request shows all of it.
	case base == noFolder:
		return "", nil
	}
	known, err := versionsWith(ctx, r.DB, r.entry.ID, base)
	if err != nil {
		return "", err
	}
	// Otherwise the diff would leave out what an unreviewed push changed before.
	for _, v := range known {
		if v.state == registry.Published {
			return "", nil
		}
		before, err := r.Registry.VersionByID(ctx, r.DB, r.entry, v.id)
		if err != nil {
			return "", err
		}
		if missing, err := r.Approvals.Missing(ctx, r.DB, r.entry, before); err != nil || missing == "" {
			return "", err
		}
	}
	return "its changes begin at content that was never approved here", nil
}

// Digests that stand for folders which can't be a version.
const (
	noFolder  = "none"    // the commit has no such folder
	badFolder = "invalid" // it cannot become a version
)

// digest returns the digest of the skill's folder at a commit. The cache is by commit, whose
// content never changes; seen keeps only what this look used.
func (r *reading) digest(ctx context.Context, commit string, seen *Sighting) (digest string, err error) {
	at := commit + ":" + r.connection.SkillPath
	if known, ok := r.last.Digests[at]; ok {
		seen.Digests[at] = known
		return known, nil
	}
	pkg, err := r.Repohost.Host.Tree(ctx, r.repo, commit, r.connection.SkillPath)
	switch {
	case fault.Is(err, fault.NotFound):
		digest = noFolder
	case fault.Is(err, fault.Malformed) || fault.Is(err, fault.TooLarge):
		digest = badFolder
	case err != nil:
		return "", err
	default:
		digest = pkg.TreeDigest()
		_ = pkg.Close() // it was only read
	}
	seen.Digests[at] = digest
	return digest, nil
}

// count takes the approvals over. Those of authors count only if the policy lets one's own
// version count. Too many commits to list means that anybody may be an author.
func (r *reading) count(ctx context.Context, p host.MergedPull, all []approval, seen *Sighting) error {
	authors, err := r.Repohost.Host.Authors(ctx, r.repo, p.Number)
	unknown := fault.Is(err, fault.TooLarge)
	if err != nil && !unknown {
		return err
	}
	for _, a := range all {
		own := unknown || slices.Contains(authors, a.review.Account)
		if own && !r.policy.SelfApproval {
			reason := "opened it, or wrote a commit of it"
			if unknown {
				reason = "may have written a part of it: it has too many commits to know"
			}
			ignore(seen, a.review, reason)
			continue
		}
		review := HostReview{
			Host: r.CodeHost, Repository: r.connection.RepoFullName, Number: p.Number, ReviewID: a.review.ID,
			URL: a.review.URL, Own: own,
		}
		seen.Approved = append(seen.Approved, MemberReview{HostReview: review, UserID: a.user.ID, Email: a.user.Email})
	}
	return nil
}
