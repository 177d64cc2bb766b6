// Package incidents follows a rollback by an alert to its end: the commit that
// the bad version came from is marked, an issue is opened, and the alert's channel
// gets the installations that still have the version, until none has. It owns the
// table incidents.
package incidents

import "time"

// An Incident is one rollback by an alert. Its id is that of the alert's event,
// which the notifications, the check-run and the issue name, too.
type Incident struct {
	ID          string
	OrgID       string
	RuleID      string
	SkillID     string
	SkillName   string
	EntryID     string
	VersionID   string // the bad version
	Version     string
	GoodVersion string // current since
	Evidence    string // why the version was rolled back, in words

	// What came of the commit; ConnectionID, AttemptID and CommitSHA are nil if the
	// version came from none.
	ConnectionID *string
	AttemptID    *string
	CommitSHA    *string
	CommitStatus Status
	CommitDetail string

	IssueStatus Status
	IssueDetail string
	IssueNumber *int64
	IssueURL    *string

	Tries         int   // at the code host, since it last answered
	Installations int64 // that still have the bad version
	ToldAt        *time.Time
	OpenedAt      time.Time
	ClosedAt      *time.Time
}

// A Status is the progress of what an incident does on the code host.
type Status string

// The statuses.
const (
	None    Status = "none" // nothing to do
	Pending Status = "pending"
	Done    Status = "done"   // the commit is marked, the issue is open
	Closed  Status = "closed" // of an issue
	Failed  Status = "failed" // the code host refuses it
)
