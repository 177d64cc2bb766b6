package repohost

import (
	"time"
)

// An Attempt is one ref at one commit that is to become a version, or what
// came of it. There is one for each (connection, ref, commit): the same push
// twice is the same attempt.
type Attempt struct {
	ID           string
	OrgID        string
	ConnectionID string
	RefKind      refKind
	RefName      string
	Commit       string
	Cause        Cause
	DeliveryID   *string
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
}

func (a Attempt) ref() ref { return ref{a.RefKind, a.RefName} }

// SourceRef is what a version is said to come from: the tag or the commit.
func (a Attempt) SourceRef() string {
	if a.RefKind == tag {
		return a.RefName
	}
	return a.Commit
}

// A Cause is why something was published.
type Cause string

// The causes.
const (
	ByPush      Cause = "push"
	ByTag       Cause = "tag"
	BySync      Cause = "sync"
	ByReconcile Cause = "reconcile"
)

// A Status is how far an attempt has come.
type Status string

// The statuses. Users see refused as failed: it only says that the same commit
// would be refused again.
const (
	Queued      Status = "queued"
	Done        Status = "published"
	Unchanged   Status = "unchanged"
	Skipped     Status = "skipped"
	Failed      Status = "failed"
	Refused     Status = "refused"
	shownFailed        = string(Failed)
)

// Shown is the status as users see it.
func (s Status) Shown() string {
	if s == Refused {
		return shownFailed
	}
	return string(s)
}

// A WriteBackStatus is how far telling the code host has come.
type WriteBackStatus string

// The write-back statuses.
const (
	Disabled    WriteBackStatus = "disabled"
	Pending     WriteBackStatus = "pending"
	Success     WriteBackStatus = "success"
	WriteFailed WriteBackStatus = "failed"
	Unsupported WriteBackStatus = "unsupported"
)

// A Finding is what the check-run says of a line.
type Finding struct {
	Path     string `json:"path"`
	Line     int    `json:"line"`
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Message  string `json:"message"`
}
