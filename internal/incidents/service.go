package incidents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/alerts"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/installations"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/repohost"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service follows incidents. Every step can be repeated: a crash between two of
// them leaves one consistent outcome.
type Service struct {
	DB            *store.DB
	Jobs          *jobs.Queue
	Alerts        *alerts.Service
	Repohost      *repohost.Service
	Installations *installations.Service
	// Interval is how often open incidents are looked at.
	Interval  time.Duration
	PublicURL string
	Log       *slog.Logger
}

// advanceAll is the scheduled job that advances all open incidents.
type advanceAll struct{}

// Kind names the job.
func (advanceAll) Kind() string { return "incidents.advance-all" }

// Register makes the queue run the job of incidents.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ advanceAll) error { return s.AdvanceAll(ctx) })
	s.Jobs.Every(s.Interval, advanceAll{})
}

// Open records an incident in the transaction of its rollback, with the commit
// that the version came from.
func (s *Service) Open(ctx context.Context, tx *store.Tx, r alerts.RolledBack) (err error) {
	defer fault.Wrap(&err, "open incident %s", r.EventID)
	i := Incident{
		ID: r.EventID, OrgID: r.OrgID, RuleID: r.RuleID, SkillID: r.SkillID, SkillName: r.SkillName, EntryID: r.EntryID,
		VersionID: r.VersionID, Version: r.Version, GoodVersion: r.GoodVersion, Evidence: r.Evidence,
		CommitStatus: None, IssueStatus: None, OpenedAt: r.At,
	}
	c, err := s.Repohost.CommitOf(ctx, tx, r.OrgID, r.EntryID, r.Version)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err == nil {
		i.ConnectionID, i.AttemptID, i.CommitSHA = &c.ConnectionID, &c.AttemptID, &c.SHA
		i.CommitDetail = "Write-back is off"
		if c.Reported {
			i.CommitStatus, i.CommitDetail = Pending, ""
		}
		if c.OpenIssues {
			i.IssueStatus = Pending
		}
	}
	return insertIncident(ctx, tx, i)
}

// AdvanceAll advances the open incidents. One that fails does not keep back the
// others.
func (s *Service) AdvanceAll(ctx context.Context) error {
	ids, err := openIncidents(ctx, s.DB)
	if err != nil {
		return err
	}
	var failures []error
	for _, id := range ids {
		failures = append(failures, s.advance(ctx, id))
	}
	return errors.Join(failures...)
}

const (
	// maxTries is how often a code host that does not answer is asked.
	maxTries = 20
	// maxNamed is how many installations a notification names.
	maxNamed = 10
)

// advance takes the steps of an incident that are due.
func (s *Service) advance(ctx context.Context, id string) (err error) {
	defer fault.Wrap(&err, "incident %s", id)
	i, err := incidentByID(ctx, s.DB, id, "")
	if err != nil {
		return err
	}
	if i.CommitStatus == Pending {
		s.markCommit(ctx, &i)
		if err := updateIncident(ctx, s.DB, i); err != nil {
			return err
		}
	}
	if i.IssueStatus == Pending {
		s.setIssue(ctx, &i, Done, i.Evidence+"\n\nIncident "+i.ID+": "+s.PublicURL+"/alerts/"+i.RuleID)
		if err := updateIncident(ctx, s.DB, i); err != nil {
			return err
		}
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		i, err = s.follow(ctx, tx, id)
		return err
	})
	if err != nil || i.ClosedAt == nil || i.IssueStatus != Done {
		return err
	}
	// What follows the closing is tried once: the issue can be closed by hand.
	s.setIssue(ctx, &i, Closed, i.Evidence+"\n\nNo installation has the version any more. Incident "+i.ID+".")
	return updateIncident(ctx, s.DB, i)
}

// setIssue opens or closes the issue of an incident.
func (s *Service) setIssue(ctx context.Context, i *Incident, reached Status, body string) {
	issue := host.Issue{
		Title: fmt.Sprintf("Version %s of %s was rolled back", i.Version, i.SkillName), Body: body, Closed: reached == Closed,
	}
	if i.IssueNumber != nil {
		issue.Number = *i.IssueNumber
	}
	err := s.Repohost.SetIssue(ctx, *i.ConnectionID, &issue)
	switch i.Tries++; {
	case err == nil:
		i.IssueStatus, i.IssueNumber, i.IssueURL, i.Tries = reached, &issue.Number, &issue.URL, 0
	case ctx.Err() != nil:
		i.Tries--
	case !repohost.IsTransient(err) || i.Tries >= maxTries:
		s.Log.Warn("the issue of an incident was not changed", "incident", i.ID, "error", err)
		i.IssueStatus, i.IssueDetail = Failed, "The code host refused it; the log says more"
	}
}

// markCommit turns the commit's check-run to failure. No network call is made in a
// transaction.
func (s *Service) markCommit(ctx context.Context, i *Incident) {
	title := fmt.Sprintf("Version %s was rolled back by an alert", i.Version)
	evidence := fmt.Sprintf("%s\n\nCurrent is %s again. Incident %s.", i.Evidence, i.GoodVersion, i.ID)
	err := s.Repohost.FailCommit(ctx, *i.AttemptID, title, evidence, s.PublicURL+"/alerts/"+i.RuleID)
	switch i.Tries++; {
	case err == nil:
		i.CommitStatus, i.CommitDetail, i.Tries = Done, "", 0
	case ctx.Err() != nil:
		i.Tries--
	case !repohost.IsTransient(err) || i.Tries >= maxTries:
		s.Log.Warn("a commit was not marked", "incident", i.ID, "error", err)
		i.CommitStatus, i.CommitDetail = Failed, "The code host refused it; the log says more"
	}
}

// follow counts the installations that still have the bad version, tells the
// channel which at first, and closes the incident when there are none.
func (s *Service) follow(ctx context.Context, tx *store.Tx, id string) (Incident, error) {
	i, err := incidentByID(ctx, tx, id, tx.Dialect().ForUpdate())
	if err != nil || i.ClosedAt != nil {
		return i, err
	}
	total, some, err := s.Installations.Holding(ctx, tx, i.OrgID, i.EntryID, i.VersionID, maxNamed)
	if err != nil {
		return i, err
	}
	i.Installations = total
	now := store.Now()
	note := ""
	switch {
	case total > 0 && i.ToldAt == nil:
		note = fmt.Sprintf("Version %s was rolled back to %s; %d installations still have it: %s.",
			i.Version, i.GoodVersion, total, strings.Join(some, ", "))
		i.ToldAt = &now
	case total == 0 && i.CommitStatus != Pending && i.IssueStatus != Pending:
		note = fmt.Sprintf("No installation has version %s any more: the incident is closed.", i.Version)
		i.ClosedAt = &now
	}
	if err := updateIncident(ctx, tx, i); err != nil || note == "" {
		return i, err
	}
	return i, s.Alerts.Tell(ctx, tx, i.OrgID, i.ID, note)
}
