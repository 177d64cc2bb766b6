// Package incidents follows a rollback by an alert to its end: the commit that
// the bad version came from is marked, an issue is opened, and the alert's channel
// gets the installations that still have the version, until none has. It owns the
// table incidents.
package incidents

import (
	"fmt"
	"slices"
	"time"
)

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
	MarkedAt     *time.Time

	IssueStatus   Status
	IssueDetail   string
	IssueNumber   *int64
	IssueURL      *string
	IssueOpenedAt *time.Time
	IssueClosedAt *time.Time

	Tries         int   // at the code host, since it last answered
	Installations int64 // that still have the bad version
	ToldAt        *time.Time
	OpenedAt      time.Time
	ClosedAt      *time.Time
	Outcome       Outcome // "" while it is open
}

// An Outcome is how an incident ended.
type Outcome string

// The outcomes.
const (
	Resolved Outcome = "resolved" // no installation has the bad version
	Undone   Outcome = "undone"   // the version was made current again
)

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

// A Moment is one line of an incident's timeline.
type Moment struct {
	At   time.Time
	What string // e.g. "commit_marked"
	Text string // for people
}

// Timeline lists what has happened, oldest first.
func (i Incident) Timeline() (all []Moment) {
	add := func(at *time.Time, what, format string, args ...any) {
		if at != nil {
			all = append(all, Moment{*at, what, fmt.Sprintf(format, args...)})
		}
	}
	add(&i.OpenedAt, "rolled_back", "Version %s was rolled back; %s is current.", i.Version, i.GoodVersion)
	if i.CommitSHA != nil {
		add(i.MarkedAt, "commit_marked", "Commit %.8s was marked as failed.", *i.CommitSHA)
	}
	if i.IssueNumber != nil {
		add(i.IssueOpenedAt, "issue_opened", "Issue %d was opened.", *i.IssueNumber)
	}
	add(i.ToldAt, "channel_notified", "The notification that names the installations left was queued.")
	if i.Outcome == Undone {
		add(i.ClosedAt, "closed", "Version %s was made current again: the incident is closed.", i.Version)
	} else {
		add(i.ClosedAt, "closed", "No installation has the version any more: the incident is closed.")
	}
	if i.IssueNumber != nil {
		add(i.IssueClosedAt, "issue_closed", "Issue %d was closed.", *i.IssueNumber)
	}
	slices.SortStableFunc(all, func(a, b Moment) int { return a.At.Compare(b.At) })
	return all
}
