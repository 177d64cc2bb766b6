// Package attempt records what came of the refs that a connection publishes: one
// attempt for each ref and commit. It keeps the table repohost_attempts for
// repohost.
package attempt

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/publish/repohost/findings"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/refs"
)

// An Attempt is the publication of one ref at one commit: queued, or with its
// outcome. There is one for each (connection, ref, commit), which deduplicates
// pushes: the same push twice is the same attempt.
type Attempt struct {
	ID           string
	OrgID        string
	ConnectionID string
	RefKind      refs.Kind
	RefName      string
	Commit       string
	Cause        Cause
	DeliveryID   *string // nil for a sync or reconciliation
	Status       Status
	Tries        int
	Version      *string
	Message      string
	Findings     []findings.Finding
	QueuedAt     time.Time
	AttemptedAt  time.Time
	PublishedAt  *time.Time

	WriteBack       WriteBackStatus
	WriteBackDetail string
	WriteBackTries  int
	StatusSent      bool
	CheckRunID      *string
	AnnotationsSent int
	Reported        string // the gate that the check-run is about, "" for none
	Asked           int    // how often a write-back was asked for
}

// Ref is the branch or tag.
func (a Attempt) Ref() refs.Ref { return refs.Ref{Kind: a.RefKind, Name: a.RefName} }

// SourceRef is the source that a version names: the tag or the commit.
func (a Attempt) SourceRef() string {
	if a.RefKind == refs.Tag {
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

// The statuses. Users see refused as failed: the difference is that the same
// commit would be refused again, so that reconcile does not retry it.
const (
	Queued    Status = "queued"
	Done      Status = "published"
	Unchanged Status = "unchanged"
	Skipped   Status = "skipped"
	Failed    Status = "failed"
	Refused   Status = "refused"
)

// Shown is the status that users see.
func (s Status) Shown() string {
	if s == Refused {
		return string(Failed)
	}
	return string(s)
}

// Bad reports whether users see the attempt as failed.
func (s Status) Bad() bool { return s == Failed || s == Refused }

// A WriteBackStatus is the progress of a write-back.
type WriteBackStatus string

// The write-back statuses.
const (
	Disabled    WriteBackStatus = "disabled"
	Pending     WriteBackStatus = "pending"
	Success     WriteBackStatus = "success"
	WriteFailed WriteBackStatus = "failed"
	Unsupported WriteBackStatus = "unsupported"
)
