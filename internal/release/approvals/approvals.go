// Package approvals asks people before a version becomes current: where the gate
// policy of an entry wants n approvals, a candidate waits for them, beside its gate or
// without one. It owns the tables version_approvals and candidate_reviews.
package approvals

import (
	"context"
	"fmt"
	"time"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// A Decision is what a person says about a version.
type Decision string

// The decisions.
const (
	Approve Decision = "approve"
	Reject  Decision = "reject"
	Comment Decision = "comment" // it decides nothing
)

// An Answer is what a person said about a version. Answers are never changed: a new decision
// marks the one before as replaced.
type Answer struct {
	ID        string
	OrgID     string
	EntryID   string
	VersionID string
	User      auth.User
	Decision  Decision
	Comment   *string
	CreatedAt time.Time
	// At most one decision of each person stands. Comments are never replaced.
	Replaced bool // by another decision of the same person, or withdrawn
	// Review is the review on the code host that is the decision; nil if it was made here.
	Review *HostReview
	// Counts says that an approval counts, or that a rejection blocks. It does as
	// long as the person may approve. It is not stored: whoever loses the right to approve
	// takes their approvals along.
	Counts bool
}

// A Review is what people said about a version, and what it still waits for.
type Review struct {
	Entry        registry.Entry
	Version      registry.Version
	Needed       int // approvals that the policy asks for now
	SelfApproval bool
	HostReviews  bool // reviews on the code host count
	Given        int  // approvals that count
	Rejected     int  // rejections that count
	// Waits also says what the gate wants; "" for a version that is no candidate.
	Waits   string
	Answers []Answer // oldest first
	// Pull is the pull request that the version came from; nil if none is known.
	Pull *PullFound
}

// Standing returns the decisions that were not replaced, oldest first.
func (r Review) Standing() (all []Answer) {
	for _, a := range r.Answers {
		if a.Decision != Comment && !a.Replaced {
			all = append(all, a)
		}
	}
	return all
}

// missing says what is missing; "" if nothing is. A single rejection outweighs any number of
// approvals.
func (r Review) missing() string {
	switch {
	case r.Rejected == 1:
		return "1 person rejected it"
	case r.Rejected > 1:
		return fmt.Sprintf("%d people rejected it", r.Rejected)
	case r.Given < r.Needed:
		return fmt.Sprintf("it has %d of %d approvals", r.Given, r.Needed)
	}
	return ""
}

// PublishedBy reports whether a person published a version: they pushed it, connected the
// repository that it came from, or chose its branch or tags. Without self_approval such a
// person can't approve the version.
func PublishedBy(v registry.Version, userID string) bool {
	return v.PushedBy == userID || v.ChosenBy != nil && *v.ChosenBy == userID
}

// Approvers says who may approve. The package teams implements it for entries with owners.
type Approvers interface {
	// MayApprove reports whether a member may approve versions of an entry of the
	// caller's organisation. Of the caller only OrgID, UserID and Role are set when an
	// earlier answer is counted.
	MayApprove(ctx context.Context, q store.Querier, entryID string, who access.Caller) (bool, error)
}

// ByRole lets members with a role, or a higher one, approve.
type ByRole access.Role

// MayApprove implements Approvers.
func (r ByRole) MayApprove(_ context.Context, _ store.Querier, _ string, who access.Caller) (bool, error) {
	return who.Role.Includes(access.Role(r)), nil
}
