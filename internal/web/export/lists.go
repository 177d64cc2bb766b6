package export

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
	"github.com/whetstone-dev/whetstone/internal/web/casepage"
)

// PerPage is how many rows are read at once.
const PerPage = 500

// A Reader reads a page of a list: the rows from offset on.
type Reader[T any] func(ctx context.Context, offset int) ([]T, error)

// paged makes the Next of a list that is read by offset.
func paged[T any](read Reader[T], row func(T) Row) func(context.Context) ([]Row, error) {
	return Pages(PerPage, func(ctx context.Context, offset int) ([]Row, error) {
		found, err := read(ctx, offset)
		return rowsOf(found, row), err
	})
}

// rowsOf makes the rows of values.
func rowsOf[T any](found []T, row func(T) Row) []Row {
	rows := make([]Row, len(found))
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

// Skills is the list of skills with their figures. Rates are shares from 0 to 1, in
// full precision.
func Skills(read Reader[skills.Performance]) File {
	return File{
		Name: "skills",
		Head: []string{
			"id", "name", "status", "pass_rate", "pass_rate_low", "pass_rate_high", "graded_sessions", "trigger_rate", "triggered_sessions",
			"seen_sessions", "cost_per_use_usd", "unique_sessions", "first_seen_at", "last_seen_at",
		},
		Next: paged(read, func(p skills.Performance) Row {
			low, high := bounds(p.PassRateInterval)
			return Row{
				p.ID, p.Name, p.Status, p.PassRate, low, high, p.GradedSessions, p.TriggerRate, p.TriggeredSessions,
				p.SeenSessions, p.CostPerUse, p.UniqueSessions, p.FirstSeenAt, p.LastSeenAt,
			}
		}),
	}
}

// Sessions is the list of sessions; next returns those after the ones before. Only
// activated skills are listed, with their versions, e.g. "pdf-tables 1.2.0; docs".
func Sessions(next func(context.Context) ([]sessions.Session, error)) File {
	return File{
		Name: "sessions",
		Head: []string{
			"id", "agent", "started_at", "last_at", "ended_at", "turns", "tool_calls", "tool_errors", "skills", "outcome", "pass_rate",
			"basis", "cost_usd",
		},
		Next: func(ctx context.Context) ([]Row, error) {
			found, err := next(ctx)
			return rowsOf(found, func(s sessions.Session) Row {
				var active []string
				for _, k := range s.Skills {
					if k.Activated {
						active = append(active, strings.TrimSpace(k.Name+" "+k.Version))
					}
				}
				known := s.Figures()
				return Row{
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

// Entries is the list of registry entries. The figures are for their organisation
// only. The column of an entry of another organisation is empty, not 0.
func Entries(orgID string, read Reader[registry.Listed]) File {
	return File{
		Name: "registry",
		Head: []string{
			"id", "name", "type", "description", "current_version", "visibility", "pass_rate", "graded_sessions", "trigger_rate", "sessions",
			"installations", "updated_at",
		},
		Next: paged(read, func(l registry.Listed) Row {
			row := Row{l.ID, l.Name, l.Type, l.Description, filled(l.CurrentVersion), l.Visibility, nil, nil, nil, nil, nil, l.UpdatedAt}
			if l.OrgID == orgID {
				copy(row[6:], Row{l.Quality.PassRate, l.Quality.GradedSessions, l.Quality.TriggerRate, l.Quality.Sessions, l.InstallationCount})
			}
			return row
		}),
	}
}

// Installations is who has which version of an entry. It is one query, bounded by
// the members of the organisation.
func Installations(found []installations.State) File {
	return File{
		Name: "installations",
		Head: []string{"entry", "user", "email", "device", "path", "client", "version", "latest_version", "status", "installed_at", "last_seen_at"},
		Next: Once(rowsOf(found, func(i installations.State) Row {
			return Row{
				i.EntryName, i.UserName, i.UserEmail, i.DeviceID, i.InstallPath, i.Client, i.Version, i.LatestVersion, i.Status(),
				i.InstalledAt, i.LastSeenAt,
			}
		})),
	}
}

// Costs is what skills cost in the last days. With all of them, a last row without a
// skill has what belongs to none, so that the file sums up to the total.
func Costs(items []costs.BillItem, bill costs.Bill, days int) File {
	rows := rowsOf(items, func(b costs.BillItem) Row { return Row{b.SkillID, b.Name, days, b.Total, b.Uses} })
	if rest := bill.Unattributed; len(items) == len(bill.Skills) && (rest == nil || *rest > 0) {
		rows = append(rows, Row{"", "", days, rest, ""})
	}
	return File{
		Name: "costs",
		Head: []string{"skill_id", "skill", "days", "cost_usd", "uses"},
		Next: Once(rows),
	}
}

// Events is the history of alerts.
func Events(read Reader[alerts.Event]) File {
	return File{
		Name: "alert-history",
		Head: []string{
			"occurred_at", "alert_id", "type", "event", "skill_id", "skill", "version", "threshold", "pass_rate", "pass_rate_low",
			"pass_rate_high", "graded_sessions", "days_silent", "measured", "reference", "firing_since", "note",
		},
		Next: paged(read, func(e alerts.Event) Row {
			low, high := bounds(e.Interval)
			return Row{
				e.OccurredAt, e.RuleID, e.Type, e.Transition, e.SkillID, e.SkillName, e.Version, e.Threshold, e.PassRate, low,
				high, e.GradedSessions, e.DaysSilent, e.Measured, e.Reference, e.FiringSince, e.Note,
			}
		}),
	}
}

// Audit is the audit log; next returns the entries after the ones before.
func Audit(next func(context.Context) ([]audit.Entry, error)) File {
	return File{
		Name: "audit",
		Head: []string{
			"id", "at", "actor", "actor_name", "user_id", "key_id", "via", "action", "target_kind", "target_id", "target_name", "detail",
			"request_id",
		},
		Next: func(ctx context.Context) ([]Row, error) {
			found, err := next(ctx)
			return rowsOf(found, func(e audit.Entry) Row {
				detail, _ := json.Marshal(e.Detail) // it was decoded from JSON
				return Row{
					e.ID, e.At, e.Actor, filled(e.ActorName), e.UserID, e.KeyID, e.Via, e.Action, e.Target.Kind, e.Target.ID, e.Target.Name,
					string(detail), e.RequestID,
				}
			}), err
		},
	}
}

// Members is the members of an organisation.
func Members(read Reader[auth.Member]) File {
	return File{
		Name: "members",
		Head: []string{"id", "name", "email", "role", "created_at", "last_seen_at"},
		Next: paged(read, func(m auth.Member) Row { return Row{m.ID, m.Name, m.Email, m.Role, m.CreatedAt, m.LastSeenAt} }),
	}
}

// Runs is the runs of a suite. Score and lift are empty for runs without graders or
// a baseline.
func Runs(read Reader[runs.Run]) File {
	return File{
		Name: "runs",
		Head: []string{
			"id", "created_at", "finished_at", "status", "skill", "version", "trials", "passed", "failed", "errors", "skipped", "score",
			"score_low", "score_high", "pass_rate", "pass_rate_low", "pass_rate_high", "baseline_pass_rate", "lift", "lift_low", "lift_high", "lift_p",
		},
		Next: paged(read, func(r runs.Run) Row {
			low, high := bounds(r.Summary.Interval)
			score, lift := Row{nil, nil, nil}, Row{nil, nil, nil, nil}
			if s := r.Summary.Score; s != nil {
				score = Row{s.Value, s.Interval[0], s.Interval[1]}
			}
			if l := r.Summary.Lift; l != nil {
				lift = Row{l.Difference, l.Interval[0], l.Interval[1], l.P}
			}
			var baseline *float64
			if r.Summary.Baseline != nil {
				baseline = &r.Summary.Baseline.PassRate
			}
			return slices.Concat(Row{
				r.ID, r.CreatedAt, r.FinishedAt, r.Status, r.Subject.Name, r.Subject.Label, r.Trials, r.Summary.Passed, r.Summary.Failed,
				r.Summary.Errors, r.Summary.Skipped,
			}, score, Row{r.Summary.PassRate, low, high, baseline}, lift)
		}),
	}
}

// Cases is the cases of a run, with what came of them. A verdict that is not there yet is
// empty. Only trials with the skill count: those of the baseline have a column of
// their own.
func Cases(report runs.Report) File {
	rows := make([]Row, len(report.Cases))
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
		rows[i] = Row{c.ID, c.Kind, casepage.Asked(c), casepage.Expected(c), verdict(got.Verdict), got.Score, passed, tried, verdict(got.Baseline)}
	}
	return File{
		Name: "cases",
		Head: []string{"case_id", "kind", "asked", "expected", "verdict", "score", "trials_passed", "trials", "baseline_verdict"},
		Next: Once(rows),
	}
}

// verdict is an empty cell while there is none.
func verdict(v *runs.Verdict) any {
	if v == nil {
		return nil
	}
	return *v
}
