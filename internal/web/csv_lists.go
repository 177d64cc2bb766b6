package web

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// csvPageRows is how many rows are read at once.
const csvPageRows = 500

// A csvReader reads a page of a list: the rows from offset on.
type csvReader[T any] func(ctx context.Context, offset int) ([]T, error)

// paged makes the Next of a list that is read by offset.
func paged[T any](read csvReader[T], row func(T) csvRow) func(context.Context) ([]csvRow, error) {
	return csvPages(csvPageRows, func(ctx context.Context, offset int) ([]csvRow, error) {
		found, err := read(ctx, offset)
		return rowsOf(found, row), err
	})
}

// rowsOf makes the rows of values.
func rowsOf[T any](found []T, row func(T) csvRow) []csvRow {
	rows := make([]csvRow, len(found))
	for i, f := range found {
		rows[i] = row(f)
	}
	return rows
}

// bounds are the two cells of an interval.
func bounds(interval *[2]float64) (low, high *float64) {
	if interval == nil {
		return nil, nil
	}
	return &interval[0], &interval[1]
}

// filled is a cell that is empty for the zero value. Types based on string have ""
// for "unknown", which a file shows like nil.
func filled[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return value
}

// skillsFile is the list of skills with their figures. Rates are shares from 0 to 1, in
// full precision.
func skillsFile(read csvReader[skills.Performance]) csvFile {
	return csvFile{
		Name: "skills",
		Head: []string{
			"id", "name", "status", "pass_rate", "pass_rate_low", "pass_rate_high", "graded_sessions", "trigger_rate", "triggered_sessions",
			"seen_sessions", "cost_per_use_usd", "unique_sessions", "first_seen_at", "last_seen_at",
		},
		Next: paged(read, func(p skills.Performance) csvRow {
			low, high := bounds(p.PassRateInterval)
			return csvRow{
				p.ID, p.Name, p.Status, p.PassRate, low, high, p.GradedSessions, p.TriggerRate, p.TriggeredSessions,
				p.SeenSessions, p.CostPerUse, p.UniqueSessions, p.FirstSeenAt, p.LastSeenAt,
			}
		}),
	}
}

// sessionsFile is the list of sessions; next returns those after the ones before. Only
// activated skills are listed, with their versions, e.g. "pdf-tables 1.2.0; docs".
func sessionsFile(next func(context.Context) ([]sessions.Session, error)) csvFile {
	return csvFile{
		Name: "sessions",
		Head: []string{
			"id", "agent", "started_at", "last_at", "ended_at", "turns", "tool_calls", "tool_errors", "skills", "outcome", "pass_rate",
			"basis", "cost_usd",
		},
		Next: func(ctx context.Context) ([]csvRow, error) {
			found, err := next(ctx)
			return rowsOf(found, func(s sessions.Session) csvRow {
				var active []string
				for _, k := range s.Skills {
					if k.Activated {
						active = append(active, strings.TrimSpace(k.Name+" "+k.Version))
					}
				}
				known := s.Figures()
				return csvRow{
					s.SessionID, s.Agent, s.StartedAt, s.LastAt, s.EndedAt, known.Turns, known.ToolCalls, known.ToolErrors, strings.Join(active, "; "),
					s.Outcome, scaled(s.PassRate, 1e9), s.Basis, scaled(s.Micros, 1e6),
				}
			}), err
		},
	}
}

// scaled returns a stored whole number in its unit. It is nil for nil: an unknown
// cost is not 0.
func scaled(n *int64, unit float64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n) / unit
	return &f
}

// entriesFile is the list of registry entries. The figures are for their organisation
// only. The column of an entry of another organisation is empty, not 0.
func entriesFile(orgID string, read csvReader[registry.Listed]) csvFile {
	return csvFile{
		Name: "registry",
		Head: []string{
			"id", "name", "type", "description", "current_version", "visibility", "pass_rate", "graded_sessions", "trigger_rate", "sessions",
			"installations", "updated_at",
		},
		Next: paged(read, func(l registry.Listed) csvRow {
			row := csvRow{l.ID, l.Name, l.Type, l.Description, filled(l.CurrentVersion), l.Visibility, nil, nil, nil, nil, nil, l.UpdatedAt}
			if l.OrgID == orgID {
				copy(row[6:], csvRow{l.Quality.PassRate, l.Quality.GradedSessions, l.Quality.TriggerRate, l.Quality.Sessions, l.InstallationCount})
			}
			return row
		}),
	}
}

// installationsFile is who has which version of an entry. It is one query, bounded by
// the members of the organisation.
func installationsFile(found []installations.State) csvFile {
	return csvFile{
		Name: "installations",
		Head: []string{"entry", "user", "email", "device", "path", "client", "version", "latest_version", "status", "installed_at", "last_seen_at"},
		Next: csvOnce(rowsOf(found, func(i installations.State) csvRow {
			return csvRow{
				i.EntryName, i.UserName, i.UserEmail, i.DeviceID, i.InstallPath, i.Client, i.Version, i.LatestVersion, i.Status(),
				i.InstalledAt, i.LastSeenAt,
			}
		})),
	}
}

// costsFile is what skills cost in the last days. With all of them, a last row without a
// skill has what belongs to none, so that the file sums up to the total.
func costsFile(items []costs.BillItem, bill costs.Bill, days int) csvFile {
	rows := rowsOf(items, func(b costs.BillItem) csvRow { return csvRow{b.SkillID, b.Name, days, b.Total, b.Uses} })
	if rest := bill.Unattributed; len(items) == len(bill.Skills) && (rest == nil || *rest > 0) {
		rows = append(rows, csvRow{"", "", days, rest, ""})
	}
	return csvFile{
		Name: "costs",
		Head: []string{"skill_id", "skill", "days", "cost_usd", "uses"},
		Next: csvOnce(rows),
	}
}

// eventsFile is the history of alerts.
func eventsFile(read csvReader[alerts.Event]) csvFile {
	return csvFile{
		Name: "alert-history",
		Head: []string{
			"occurred_at", "alert_id", "type", "event", "skill_id", "skill", "version", "threshold", "pass_rate", "pass_rate_low",
			"pass_rate_high", "graded_sessions", "days_silent", "measured", "reference", "firing_since", "note",
		},
		Next: paged(read, func(e alerts.Event) csvRow {
			low, high := bounds(e.Interval)
			return csvRow{
				e.OccurredAt, e.RuleID, e.Type, e.Transition, e.SkillID, e.SkillName, e.Version, e.Threshold, e.PassRate, low,
				high, e.GradedSessions, e.DaysSilent, e.Measured, e.Reference, e.FiringSince, e.Note,
			}
		}),
	}
}

// auditFile is the audit log; next returns the entries after the ones before.
func auditFile(next func(context.Context) ([]audit.Entry, error)) csvFile {
	return csvFile{
		Name: "audit",
		Head: []string{
			"id", "at", "actor", "actor_name", "user_id", "key_id", "via", "action", "target_kind", "target_id", "target_name", "detail",
			"request_id",
		},
		Next: func(ctx context.Context) ([]csvRow, error) {
			found, err := next(ctx)
			return rowsOf(found, func(e audit.Entry) csvRow {
				detail, _ := json.Marshal(e.Detail) // it was decoded from JSON
				return csvRow{
					e.ID, e.At, e.Actor, filled(e.ActorName), e.UserID, e.KeyID, e.Via, e.Action, e.Target.Kind, e.Target.ID, e.Target.Name,
					string(detail), e.RequestID,
				}
			}), err
		},
	}
}

// membersFile is the members of an organisation.
func membersFile(read csvReader[auth.Member]) csvFile {
	return csvFile{
		Name: "members",
		Head: []string{"id", "name", "email", "role", "created_at", "last_seen_at"},
		Next: paged(read, func(m auth.Member) csvRow { return csvRow{m.ID, m.Name, m.Email, m.Role, m.CreatedAt, m.LastSeenAt} }),
	}
}

// runsFile is the runs of a suite. Score and lift are empty for runs without graders or
// a baseline.
func runsFile(read csvReader[runs.Run]) csvFile {
	return csvFile{
		Name: "runs",
		Head: []string{
			"id", "created_at", "finished_at", "status", "skill", "version", "trials", "passed", "failed", "errors", "skipped", "score",
			"score_low", "score_high", "pass_rate", "pass_rate_low", "pass_rate_high", "baseline_pass_rate", "lift", "lift_low", "lift_high", "lift_p",
		},
		Next: paged(read, func(r runs.Run) csvRow {
			low, high := bounds(r.Summary.Interval)
			score, lift := csvRow{nil, nil, nil}, csvRow{nil, nil, nil, nil}
			if s := r.Summary.Score; s != nil {
				score = csvRow{s.Value, s.Interval[0], s.Interval[1]}
			}
			if l := r.Summary.Lift; l != nil {
				lift = csvRow{l.Difference, l.Interval[0], l.Interval[1], l.P}
			}
			var baseline *float64
			if r.Summary.Baseline != nil {
				baseline = &r.Summary.Baseline.PassRate
			}
			return slices.Concat(csvRow{
				r.ID, r.CreatedAt, r.FinishedAt, r.Status, r.Subject.Name, r.Subject.Label, r.Trials, r.Summary.Passed, r.Summary.Failed,
				r.Summary.Errors, r.Summary.Skipped,
			}, score, csvRow{r.Summary.PassRate, low, high, baseline}, lift)
		}),
	}
}

// casesFile is the cases of a run, with what came of them. A verdict that is not there yet is
// empty. Only trials with the skill count: those of the baseline have a column of
// their own.
func casesFile(report runs.Report) csvFile {
	rows := make([]csvRow, len(report.Cases))
	for i, c := range report.Cases {
		got := report.Results[i]
		passed, tried := 0, 0
		for _, t := range got.Trials {
			if t.Arm != runs.WithSkill || t.Verdict == runs.Skipped {
				continue
			}
			if tried++; t.Verdict == runs.Pass {
				passed++
			}
		}
		rows[i] = csvRow{c.ID, c.Kind, askedByCase(c), expectedByCase(c), csvVerdict(got.Verdict), got.Score, passed, tried, csvVerdict(got.Baseline)}
	}
	return csvFile{
		Name: "cases",
		Head: []string{"case_id", "kind", "asked", "expected", "verdict", "score", "trials_passed", "trials", "baseline_verdict"},
		Next: csvOnce(rows),
	}
}

// csvVerdict is an empty cell while there is none.
func csvVerdict(v *runs.Verdict) any {
	if v == nil {
		return nil
	}
	return *v
}
