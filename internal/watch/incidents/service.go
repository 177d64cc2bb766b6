package incidents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
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
	// Not found means that the version was not published from a code host.
	if err == nil {
		i.ConnectionID, i.AttemptID, i.CommitSHA = &c.ConnectionID, &c.AttemptID, &c.SHA
		// It is replaced below if the commit can be marked.
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

// AdvanceAll advances the incidents that are not at their end. One that fails does not keep back the
// others.
func (s *Service) AdvanceAll(ctx context.Context) error {
	ids, err := unfinished(ctx, s.DB)
	if err != nil {
		return err
	}
	var failures []error
	for _, id := range ids {
		// errors.Join drops the nil ones.
		failures = append(failures, s.advance(ctx, id))
	}
	return errors.Join(failures...)
}

const (
	// maxTries is how often a code host that does not answer is asked.
	maxTries = 20
	// maxNamed is how many installations a notification names.
	maxNamed = 10
	// maxDevices is how many the page of an incident names.
	maxDevices = 100
)

// advance takes the steps of an incident that are due. Network calls come before the
// transaction, and each result is stored at once: after a crash a step is repeated,
// which code hosts take as the same state.
func (s *Service) advance(ctx context.Context, id string) (err error) {
	defer fault.Wrap(&err, "incident %s", id)
	i, err := incidentByID(ctx, s.DB, id, "")
	if err != nil {
		return err
	}
	if i.CommitStatus == Pending {
		s.markCommit(ctx, &i)
		if err := updateCommit(ctx, s.DB, i); err != nil {
			return err
		}
	}
	if i.IssueStatus == Pending {
		s.setIssue(ctx, &i, Done, i.Evidence+"\n\nIncident "+i.ID+": "+s.url(i))
		if err := updateIssue(ctx, s.DB, i, Pending); err != nil {
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
	return s.closeIssue(ctx, i)
}

// url is the page of an incident.
func (s *Service) url(i Incident) string { return s.PublicURL + "/incidents/" + i.ID }

// closeIssue closes the issue of a closed incident, unless another one has it
// too. The next job tries it again if the code host does not answer.
func (s *Service) closeIssue(ctx context.Context, i Incident) error {
	// Otherwise the code host would show a closed issue for an open incident.
	used, err := issueInUse(ctx, s.DB, i)
	if err != nil {
		return err
	}
	if used {
		i.IssueStatus, i.IssueDetail = Closed, "Another incident keeps it open"
		return updateIssue(ctx, s.DB, i, Done)
	}
	moments := i.Timeline()
	s.setIssue(ctx, &i, Closed, i.Evidence+"\n\n"+moments[len(moments)-1].Text+" Incident "+i.ID+": "+s.url(i))
	return updateIssue(ctx, s.DB, i, Done)
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
	now := store.Now()
	switch i.Tries++; {
	case err == nil:
		i.IssueStatus, i.IssueNumber, i.IssueURL, i.Tries = reached, &issue.Number, &issue.URL, 0
		if reached == Closed {
			i.IssueClosedAt = &now
		} else {
			i.IssueOpenedAt = &now
		}
	// The process stops: that is no try.
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
	evidence := fmt.Sprintf("%s\n\nCurrent is %s. Incident %s.", i.Evidence, i.GoodVersion, i.ID)
	err := s.Repohost.FailCommit(ctx, *i.AttemptID, title, evidence, s.url(*i))
	now := store.Now()
	switch i.Tries++; {
	case err == nil:
		i.CommitStatus, i.CommitDetail, i.MarkedAt, i.Tries = Done, "", &now, 0
	// Neither is a failure of the code host.
	case ctx.Err() != nil || errors.Is(err, repohost.ErrBusy):
		i.Tries--
	case !repohost.IsTransient(err) || i.Tries >= maxTries:
		s.Log.Warn("a commit was not marked", "incident", i.ID, "error", err)
		i.CommitStatus, i.CommitDetail = Failed, "The code host refused it; the log says more"
	}
}

// follow counts the installations that still have the bad version, sends the
// channel their names at first, and closes the incident when there are none, or when
// the version was made current again.
func (s *Service) follow(ctx context.Context, tx *store.Tx, id string) (Incident, error) {
	i, err := incidentByID(ctx, tx, id, tx.Dialect().ForUpdate())
	if err != nil || i.ClosedAt != nil {
		return i, err
	}
	lines, err := registry.LineagesOfSkills(ctx, tx, i.OrgID, []string{i.SkillID})
	if err != nil {
		return i, err
	}
	total, some, err := s.Installations.Holding(ctx, tx, i.OrgID, i.EntryID, i.VersionID, maxNamed)
	if err != nil {
		return i, err
	}
	i.Installations = total
	now := store.Now()
	// An incident stays open until the code host was told, or refused for good.
	note, settled := "", i.CommitStatus != Pending && i.IssueStatus != Pending
	switch {
	case lines[i.SkillID].CurrentID == i.VersionID && settled:
		note = fmt.Sprintf("Version %s was made current again: the incident is closed.", i.Version)
		i.ClosedAt, i.Outcome = &now, Undone
	case total > 0 && i.ToldAt == nil:
		note = fmt.Sprintf("Version %s was rolled back to %s; %d installations still have it: %s.",
			i.Version, i.GoodVersion, total, strings.Join(some, ", "))
		i.ToldAt = &now
	case total == 0 && settled:
		note = fmt.Sprintf("No installation has version %s any more: the incident is closed.", i.Version)
		i.ClosedAt, i.Outcome = &now, Resolved
	}
	// The note commits with the state that says it was sent.
	if err := updateProgress(ctx, tx, i); err != nil || note == "" {
		return i, err
	}
	return i, s.Alerts.Tell(ctx, tx, i.OrgID, i.ID, note+" Incident "+i.ID+".")
}

// A Filter chooses incidents of a listing.
type Filter struct {
	State string // open or closed; "": both
	store.Page
}

// List returns a page of the organisation's incidents, newest first, and how many
// there are.
func (s *Service) List(ctx context.Context, orgID string, f Filter) ([]Incident, int, error) {
	return listIncidents(ctx, s.DB, orgID, f)
}

// Get returns an incident of the organisation, and the names of some devices that
// still have its version.
func (s *Service) Get(ctx context.Context, orgID, id string) (i Incident, devices []string, err error) {
	if i, err = ownIncident(ctx, s.DB, orgID, id); err != nil {
		return i, nil, err
	}
	i.Installations, devices, err = s.Installations.Holding(ctx, s.DB, orgID, i.EntryID, i.VersionID, maxDevices)
	return i, devices, err
}
