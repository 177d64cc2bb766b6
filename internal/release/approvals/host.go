package approvals

import (
	"context"
	"fmt"
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// A HostReview is a review of a pull request that approves a version. It is stored as
// the API shows it.
type HostReview = api.HostReview

// A PullFound is what is known of the pull request that a version came from. It is stored as
// the API shows it.
type PullFound = api.PullFound

// An Ignored is a review that does not count.
type Ignored = api.IgnoredReview

// A Sighting is the outcome of a look at the pull request of a candidate. Its Looks is a
// version number for optimistic locking: a look takes minutes, and holds no lock.
type Sighting struct {
	Looks int       `json:"-"` // before this one
	Found PullFound `json:"pull_request"`
	// Digests are the digests of the skill's folder at commits, which never change: they
	// are not read again. The key is commit and folder, e.g. "5f0c...:skills/pdf"; see
	// HostReviews.
	Digests map[string]string `json:"digests"`
	// Approved are the reviews that approve, one of each member. It isn't stored; the approvals
	// that follow from it are.
	Approved []MemberReview `json:"-"`
}

// A MemberReview is a review of a member.
type MemberReview struct {
	HostReview
	UserID, Email string
}

// sameReview reports whether two are one review: a repository may have got another name. Host, number
// and id name a review. Own is compared, too, since it decides whether it counts.
func sameReview(r, other HostReview) bool {
	return r.Host == other.Host && r.Number == other.Number && r.ReviewID == other.ReviewID && r.Own == other.Own
}

// Sighting returns what the last look at the pull request of a version found, without the
// reviews. A version that was not looked at has an empty one. The caller reads the code host,
// and hands the Sighting with the same Looks to TakeReviews.
func (s *Service) Sighting(ctx context.Context, versionID string) (Sighting, error) {
	return sightingOf(ctx, s.DB, versionID)
}

// TakeReviews makes the approvals of a candidate by reviews on the code host those that a
// look has found, and makes the candidate current if nothing else is missing. What a
// person decided here stays. It reports false, and changes nothing, if another look ended
// after this one had begun. If approvals changed and the candidate goes on waiting, it says
// for what. The entry is locked.
func (s *Service) TakeReviews(
	ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, seen Sighting,
) (waits string, taken bool, err error) {
	last, err := sightingOf(ctx, tx, v.ID)
	if err != nil || last.Looks != seen.Looks {
		return "", false, err
	}
	before, err := s.tally(ctx, tx, e, v)
	if err != nil {
		return "", false, err
	}
	changed := false
	decided := map[string]bool{}
	for _, a := range before.Standing() {
		// An approval that was given here always stays. One by review stays while its review
		// does.
		stays := func(r MemberReview) bool { return r.UserID == a.User.ID && sameReview(r.HostReview, *a.Review) }
		if a.Review == nil || slices.ContainsFunc(seen.Approved, stays) {
			decided[a.User.ID] = true
			continue
		}
		changed = true
		if err := withdraw(ctx, tx, e, v, a); err != nil {
			return "", false, err
		}
	}
	for _, r := range seen.Approved {
		// A decision here, even a rejection, outweighs the person's review on the code host.
		if decided[r.UserID] {
			continue
		}
		changed, decided[r.UserID] = true, true
		// Record the approval of a member by a review.
		c := access.Caller{OrgID: e.OrgID, UserID: r.UserID, Email: r.Email}
		a := newAnswer(c, v, Approve, "")
		a.Review = &r.HostReview
		if err := replaceAnswers(ctx, tx, a); err != nil {
			return "", false, err
		}
		// The audit log names the reviewer, not the job.
		if err := a.insert(access.With(ctx, c), tx, e, v); err != nil {
			return "", false, err
		}
	}
	// Also where nothing changed: a look that began earlier must not win later.
	seen.Looks++
	if err := upsertSighting(ctx, tx, v, seen); err != nil || !changed {
		return "", true, err
	}
	waits, err = s.Gates.Settle(ctx, tx, e, v)
	if err != nil || waits != "" {
		return waits, true, err
	}
	return "", true, s.released(ctx, tx, e, v, "approved", fmt.Sprintf("in pull request #%d", seen.Found.Number))
}

// withdraw takes back an approval whose review does not approve any more.
func withdraw(ctx context.Context, tx *store.Tx, e registry.Entry, v registry.Version, a Answer) error {
	a.CreatedAt = store.Now()
	if err := replaceAnswers(ctx, tx, a); err != nil {
		return err
	}
	return e.Record(ctx, tx, "approvals.version.withdraw", audit.Detail{
		"version": v.Version, "content_hash": v.ContentHash, "user": a.User.ID, "review": a.Review,
	})
}
