package web

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// The handlers below return the lists of pages as CSV files, with the same filters and
// order. Rows are read page by page while they are written, so that memory is bounded.

// handleExportSkills exports the names that the page shows, e.g. the hidden ones.
func (s *Service) handleExportSkills(v *visit) (answer, error) {
	f, _ := skillFilter(v)
	f.Limit = csvPageRows
	return file(v, skillsFile(func(ctx context.Context, offset int) ([]skills.Performance, error) {
		f.Offset = offset
		found, _, err := s.Skills.List(ctx, v.Caller.OrgID, f)
		return found, err
	}))
}

// maxSearches limits how often an export looks for sessions that match: with several
// filters a search may find none among the sessions that it compares.
const maxSearches = 200

// handleExportSessions continues with the cursor of the last search, since sessions
// have no page numbers. A search that finds none is repeated, up to maxSearches.
func (s *Service) handleExportSessions(v *visit) (answer, error) {
	f, err := newSessionsForm(v.URL.Query()).filter()
	if err != nil {
		return answer{}, err
	}
	f.Limit = csvPageRows
	// The function is called until it returns no rows.
	searches, over := 0, false
	return file(v, sessionsFile(func(ctx context.Context) (found []sessions.Session, err error) {
		for len(found) == 0 && !over && err == nil {
			found, f.Cursor, err = s.Sessions.List(ctx, v.Caller, f)
			searches++
			over = f.Cursor == "" || searches == maxSearches
		}
		return found, err
	}))
}

// handleExportRegistry exports the entries of the organisation, or the public ones.
// Those of other organisations are reduced to what others may see.
func (s *Service) handleExportRegistry(v *visit) (answer, error) {
	f, public := entryFilter(v)
	f.Limit = csvPageRows
	return file(v, entriesFile(v.Caller.OrgID, func(ctx context.Context, offset int) (found []registry.Listed, err error) {
		f.Offset = offset
		if public {
			found, _, err = s.Registry.ListPublic(ctx, f)
		} else {
			found, _, err = s.Registry.List(ctx, v.Caller.OrgID, f)
		}
		for i, l := range found {
			if l.OrgID != v.Caller.OrgID {
				found[i].Entry = l.ForOthers()
			}
		}
		return found, err
	}))
}

// handleExportInstallations exports who installed an entry, which the plan must
// include, as on the page. An entry of another organisation has installations of
// this one only.
func (s *Service) handleExportInstallations(v *visit) (answer, error) {
	e, err := s.Registry.Entry(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if !v.Caller.Plan.Includes(access.Team) {
		return answer{}, fault.New(fault.Denied, "This needs the team plan or higher; the organisation is on %s", v.Caller.Plan)
	}
	found, err := s.Installations.OfEntry(v.Context(), v.Caller.OrgID, e.ID)
	if err != nil {
		return answer{}, err
	}
	return file(v, installationsFile(found))
}

// handleExportCosts has the rows of the page and the sums below them.
func (s *Service) handleExportCosts(v *visit) (answer, error) {
	view, err := readBill(v.Context(), s.Costs, v.Caller.OrgID, v.list)
	if err != nil {
		return answer{}, err
	}
	return file(v, costsFile(view.Items, view.Bill, view.Days))
}

// handleExportAlerts has all events, where the page shows the newest.
func (s *Service) handleExportAlerts(v *visit) (answer, error) {
	return file(v, eventsFile(func(ctx context.Context, offset int) ([]alerts.Event, error) {
		found, _, err := s.Alerts.Events(ctx, v.Caller.OrgID, eventFilter(v, csvPageRows, offset))
		return found, err
	}))
}

// handleExportAudit continues after the last entry of each page, as the log has no
// numbers.
func (s *Service) handleExportAudit(v *visit) (answer, error) {
	f, err := newAuditForm(v.URL.Query()).filter()
	if err != nil {
		return answer{}, err
	}
	f.Limit = csvPageRows
	over := false
	return file(v, auditFile(func(ctx context.Context) ([]audit.Entry, error) {
		if over {
			return nil, nil
		}
		found, more, err := s.Audit.List(ctx, v.Caller.OrgID, f)
		if over = !more; more {
			f.Before = found[len(found)-1].ID
		}
		return found, err
	}))
}

// handleExportMembers is for everyone who may see the list.
func (s *Service) handleExportMembers(v *visit) (answer, error) {
	return file(v, membersFile(func(ctx context.Context, offset int) ([]auth.Member, error) {
		found, _, err := s.Auth.Members(ctx, v.Caller.OrgID, auth.MemberPage{
			Search: v.list.Search(), Page: store.Page{Sort: v.list.Sort(), Limit: csvPageRows, Offset: offset},
		})
		return found, err
	}))
}

// handleExportRuns has the runs of one suite, with the filter of its page.
func (s *Service) handleExportRuns(v *visit) (answer, error) {
	return file(v, runsFile(func(ctx context.Context, offset int) ([]runs.Run, error) {
		found, _, err := s.Runs.List(ctx, v.Caller.OrgID, v.PathValue("id"), runFilter(v, store.Page{
			Sort: v.list.Sort(), Limit: csvPageRows, Offset: offset,
		}))
		return found, err
	}))
}

// handleExportCases exports the cases of one run.
func (s *Service) handleExportCases(v *visit) (answer, error) {
	// Whole: a report is bounded by the limits of a suite.
	report, err := s.Runs.Report(v.Context(), v.Caller.OrgID, v.PathValue("id"), "")
	if err != nil {
		return answer{}, err
	}
	return file(v, casesFile(report))
}
