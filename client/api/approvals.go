package api

// An Approval is the decision of a person on a version, or a comment.
type Approval struct {
	UserID   string  `json:"user_id" format:"uuid"`
	Name     string  `json:"name" example:"Ada"`
	Decision string  `json:"decision" enum:"approve,reject,comment"`
	Comment  *string `json:"comment"`
	// Counts is computed at each request. It isn't stored, because roles and policies change.
	Counts    bool        `json:"counts" doc:"The approval counts, or the rejection blocks: false once the person may not approve any more"`
	CreatedAt Time        `json:"created_at"`
	Review    *HostReview `json:"review" doc:"The review on the code host that is the decision; null if it was made here"`
}

// A VersionReview is what people decided on a version. Its figures are computed anew at each
// request.
type VersionReview struct {
	EntryID      string     `json:"entry_id" format:"uuid"`
	Version      string     `json:"version" example:"1.3.0"`
	State        string     `json:"state" enum:"candidate,published,withdrawn"`
	Needed       int        `json:"needed" doc:"Approvals that the policy asks for"`
	Given        int        `json:"given" doc:"Approvals that count"`
	Rejected     int        `json:"rejected" doc:"Rejections that count; each blocks the version"`
	SelfApproval bool       `json:"self_approval"`
	WaitsFor     *string    `json:"waits_for" doc:"What keeps the candidate from becoming current; null if nothing does"`
	Approvals    []Approval `json:"approvals" nullable:"false" doc:"The decision of each person, oldest first"`
	Conversation []Approval `json:"conversation" nullable:"false" doc:"All comments, also those of decisions that were replaced"`
	PullRequest  *PullFound `json:"pull_request" doc:"The pull request whose reviews count, and which of them do not; null if none is known"`
}

// A WaitingCandidate is a version that waits for approvals.
type WaitingCandidate struct {
	EntryID  string  `json:"entry_id" format:"uuid"`
	Name     string  `json:"name"`
	Version  string  `json:"version" example:"1.3.0"`
	Current  *string `json:"current" doc:"The version that it would replace; null for the first one"`
	Needed   int     `json:"needed"`
	Given    int     `json:"given"`
	GateID   *string `json:"gate_id" format:"uuid"`
	PushedAt Time    `json:"pushed_at"`
	PushedBy string  `json:"pushed_by" format:"uuid"`
}

// A HostReview is a review on the code host.
type HostReview struct {
	Host       string `json:"host" example:"https://github.com"`
	Repository string `json:"repository" example:"acme/skills"`
	Number     int64  `json:"number" doc:"Of the pull request" example:"12"`
	ReviewID   int64  `json:"review_id" doc:"The code host's"`
	URL        string `json:"url" doc:"Of the review"`
	Own        bool   `json:"own" doc:"The person opened the pull request, or wrote a commit of it: it counts only with self_approval"`
}

// A PullFound is what is known of the pull request that a version came from.
type PullFound struct {
	Number  int64           `json:"number" example:"12"`
	URL     string          `json:"url"`
	Problem string          `json:"problem" doc:"Why none of its reviews count; empty if they may"`
	Ignored []IgnoredReview `json:"ignored" nullable:"false" doc:"Approving reviews that do not count; at most 20"`
}

// An IgnoredReview is a review that does not count.
type IgnoredReview struct {
	Login  string `json:"login" doc:"The account's name on the code host"`
	Reason string `json:"reason"`
}
