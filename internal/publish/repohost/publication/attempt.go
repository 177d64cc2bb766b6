// Package publication stores what became of the refs that connections publish: one attempt
// per connection, ref and commit. It owns the table repohost_attempts for repohost.
package publication

import (
	"time"
)

// An Attempt is the publication of one ref at one commit, queued or finished. There is at
// most one per (connection, ref, commit), which makes publishing idempotent: the same
// push twice is the same attempt.
type Attempt struct {
	ID           string
	OrgID        string
	ConnectionID string
	RefKind      Kind
	RefName      string
	Commit       string
	Cause        Cause
	DeliveryID   *string // nil if a sync or reconciliation caused it
	Status       Status
	Tries        int
	Version      *string
	Message      string
	Findings     []Finding
	QueuedAt     time.Time
	AttemptedAt  time.Time
	PublishedAt  *time.Time

	WriteBack       WriteBackStatus
	WriteBackDetail string
	WriteBackTries  int
	StatusSent      bool
	CheckRunID      *string
	AnnotationsSent int
	Reported        string // id of the gate that the check run is about; "" for none
	Asked           int    // counts requests for a write-back, to detect newer ones
}

// Ref returns the branch or tag.
func (a Attempt) Ref() Ref { return Ref{Kind: a.RefKind, Name: a.RefName} }

// SourceRef is what the version names as its source: the tag, or the commit's SHA.
func (a Attempt) SourceRef() string {
	if a.RefKind == Tag {
		return a.RefName
	}
	return a.Commit
}

// A Cause is what triggered an attempt.
type Cause string

// The causes.
const (
	ByPush      Cause = "push"
	ByTag       Cause = "tag"
	BySync      Cause = "sync"
	ByReconcile Cause = "reconcile"
)

// A Status is the progress of an attempt.
type Status string

// The statuses. Refused is shown as failed; the difference is that the same commit would
// be refused again, so reconcile doesn't retry it.
const (
	Queued    Status = "queued"
	Done      Status = "published"
	Unchanged Status = "unchanged"
	Skipped   Status = "skipped"
	Failed    Status = "failed"
	Refused   Status = "refused"
)

// Shown is the status for users.
func (s Status) Shown() string {
	if s == Refused {
		return string(Failed)
	}
	return string(s)
}

// Bad reports whether users see the attempt as failed.
func (s Status) Bad() bool { return s == Failed || s == Refused }

// A WriteBackStatus is the progress of the report to the code host.
type WriteBackStatus string

// The write-back statuses.
const (
	Disabled    WriteBackStatus = "disabled"
	Pending     WriteBackStatus = "pending"
	Success     WriteBackStatus = "success"
	WriteFailed WriteBackStatus = "failed"
	Unsupported WriteBackStatus = "unsupported"
)
