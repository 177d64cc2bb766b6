package signals

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

const (
	maxBody = 8 << 20
	// maxValues is the largest number of JSON values in a body; a batch of 1000
	// signals has 6,000.
	maxValues = 100_000
)

// Mount adds the routes of signals.
func (s *Service) Mount(a *httpapi.API) {
	// The limit is per organisation: contributors' tools all use one relay. InTx counts the request
	// in the transaction that stores its signals, which saves one.
	limit := &httpapi.Limit{Requests: 300, Per: time.Hour, By: httpapi.ByOrg, InTx: true}
	httpapi.Add(a, s.handleIngest, httpapi.Route{
		Permission: access.TelemetryWrite, Method: "POST", Path: "/api/v1/signals",
		Also: []int{http.StatusCreated}, HandChecked: true, MaxBody: maxBody, MaxInflated: maxBody,
		Limit: limit, MaxValues: maxValues,
		Summary: "Send contributors' signals: a batch, or one session",
	})
	httpapi.Add(a, s.handleAggregates, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/signals/aggregates",
		Summary: "Count signals by skill, type and period",
	})
	httpapi.Add(a, s.handleOverview, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/creator-signals/overview",
		Summary: "What contributors' signals say about all skills",
	})
	httpapi.Add(a, s.handleSkill, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/creator-signals/skills/{name}",
		Summary: "What contributors' signals say about one skill",
	})
}

// Body describes both bodies in the OpenAPI document. Service.read parses it by
// hand, since the type of signals decides which fields there are.
type Body struct {
	Signals         any    `json:"signals" doc:"1 to 1000 objects of skill_name, signal_type, confidence, source_key and perhaps user_cohort; or, for one session, an object of triggered, invocation_type, execution_grade, query_bucket and miss_detected, all of them optional"`
	UserCohort      string `json:"user_cohort,omitempty" maxLength:"128" doc:"The contributor, if the key is a relay's; else it is the user behind the key"`
	Version         int    `json:"version,omitempty" enum:"1" doc:"With one session"`
	SkillName       string `json:"skill_name,omitempty" maxLength:"200" doc:"With one session: required"`
	SignalType      string `json:"signal_type,omitempty" maxLength:"64" example:"skill_session" doc:"With one session: required"`
	TimestampBucket string `json:"timestamp_bucket,omitempty" example:"2026-W07" doc:"With one session: its ISO week; this week if missing"`
	RelayTo         string `json:"relay_destination,omitempty" format:"uuid" doc:"With one session: the creator of the skill"`
	SkillHash       string `json:"skill_hash,omitempty" doc:"With one session: not looked at"`
	ClientVersion   string `json:"client_version,omitempty" maxLength:"100" doc:"With one session"`

	raw []byte
}

// UnmarshalJSON keeps the raw body. The frame must not decode it: the two bodies have fields of the
// same name and different types.
func (b *Body) UnmarshalJSON(raw []byte) error {
	b.raw = bytes.Clone(raw)
	return nil
}

type ingestInput struct {
	Body Body
}

type ingestOutput struct {
	api.SignalsResult
	session bool
}

// HTTPStatus returns 201 for a session, which is always new.
func (o ingestOutput) HTTPStatus() int {
	if o.session {
		return http.StatusCreated
	}
	return http.StatusOK
}

func (s *Service) handleIngest(ctx context.Context, in ingestInput) (ingestOutput, error) {
	r, err := s.Ingest(ctx, access.From(ctx), in.Body.raw)
	out := ingestOutput{api.SignalsResult{Status: "accepted"}, r.Session}
	if !r.Session {
		out.Accepted, out.Duplicates = &r.Accepted, &r.Duplicates
	}
	if r.NotRelay {
		out.Warnings = []string{notRelay}
	}
	return out, err
}

// notRelay explains to a sender why its cohorts were not used.
const notRelay = "user_cohort was not used: this key is not a relay's, so its signals count as those of its user; " +
	"a server that passes on signals of others needs a key made with `whetstone key create --relay`"

// withholding is shared by all outputs that can have suppressed figures.
func (s *Service) withholding(suppressed bool) api.Withholding {
	if !suppressed {
		return api.Withholding{}
	}
	return api.Withholding{Suppressed: true, Reason: s.Withheld()}
}

type aggregatesInput struct {
	SkillName  string `query:"skill_name" maxLength:"200" doc:"Only this skill"`
	SignalType string `query:"signal_type" maxLength:"64" doc:"Only this type"`
	Since      string `query:"since" doc:"From this time or day on; its whole period is counted" example:"2026-01-02"`
	Until      string `query:"until" doc:"Up to this time or day; its whole period is counted" example:"2026-01-02T03:04:05Z"`
	Bucket     string `query:"bucket" enum:"day,week" default:"day" doc:"Periods: UTC days or ISO weeks"`
}

// query parses the input's times. Both bounds accept a day, for people, or a time, for scripts.
func (in aggregatesInput) query() (q Query, err error) {
	q = Query{SkillName: strings.TrimSpace(in.SkillName), Type: in.SignalType, Weekly: in.Bucket == "week"}
	var issues []fault.Issue
	parse := func(name, text string) *time.Time {
		if text == "" {
			return nil
		}
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t, err = time.Parse(time.DateOnly, text)
		}
		if err != nil {
			issues = append(issues, fault.At(name, "%s must be an RFC 3339 time or a day like 2026-01-02", name))
		}
		return &t
	}
	q.Since, q.Until = parse("since", in.Since), parse("until", in.Until)
	if len(issues) > 0 {
		return q, fault.Issues(issues...)
	}
	if q.Since != nil && q.Until != nil && q.Until.Before(*q.Since) {
		return q, fault.Invalid("until", "until must not be before since")
	}
	return q, nil
}

func (s *Service) handleAggregates(ctx context.Context, in aggregatesInput) (api.SignalsAggregates, error) {
	q, err := in.query()
	if err != nil {
		return api.SignalsAggregates{}, err
	}
	rows, t, err := s.Aggregates(ctx, access.From(ctx).OrgID, q)
	return api.SignalsAggregates{
		GeneratedAt: httpapi.Time(time.Now()),
		AsOf:        (*httpapi.Time)(t.AsOf),
		Totals: api.SignalsTotals{
			Signals: t.Signals, Skills: t.Skills, Contributors: t.Contributors, Withholding: s.withholding(t.Suppressed),
		},
		Aggregates: each(rows, func(r Row) api.SignalsRow {
			return api.SignalsRow{
				SkillName: r.SkillName, Type: r.Type, Bucket: r.Bucket, Signals: r.Signals, Contributors: r.Contributors,
				Confidence: r.Confidence, Withholding: s.withholding(r.Suppressed),
			}
		}),
	}, err
}

func newSource(ctx context.Context, asOf *time.Time) api.SignalsSource {
	return api.SignalsSource{
		Source: "contribution_signal", CreatorID: access.From(ctx).UserID, GeneratedAt: httpapi.Time(time.Now()),
		AsOf: (*httpapi.Time)(asOf),
	}
}

// newSummaryOutput shows a summary. LastSignalAt has the precision of a day: a time could be
// matched with somebody's working hours.
func (s *Service) newSummaryOutput(sum Summary) api.SkillSignals {
	return api.SkillSignals{
		SkillName: sum.SkillName, Signals: sum.Signals, Contributors: sum.Contributors,
		TriggerRate: sum.TriggerRate, MissRate: sum.MissRate,
		Actionable: sum.Actionable, LastSignalAt: httpapi.Time(sum.LastDay), Withholding: s.withholding(sum.Suppressed),
	}
}

func (s *Service) handleOverview(ctx context.Context, _ struct{}) (api.SignalsOverview, error) {
	o, err := s.Overview(ctx, access.From(ctx).OrgID)
	return api.SignalsOverview{
		SignalsSource: newSource(ctx, o.AsOf), Signals: o.Signals, Contributors: o.Contributors, ActiveSkills: len(o.Skills),
		PendingProposals: o.Pending, Skills: each(o.Skills, s.newSummaryOutput), Withholding: s.withholding(o.Suppressed),
	}, err
}

type skillInput struct {
	Name string `path:"name" doc:"Name of the skill"`
}

func (s *Service) handleSkill(ctx context.Context, in skillInput) (api.SkillSignalsDetail, error) {
	d, err := s.Skill(ctx, access.From(ctx).OrgID, in.Name)
	out := api.SkillSignalsDetail{
		SignalsSource: newSource(ctx, d.AsOf),
		Missed:        each(d.Missed, func(c Count) api.SignalsCount { return api.SignalsCount(c) }),
		Grades:        d.Grades, Invocations: d.Invocations, Withholding: s.withholding(d.Suppressed),
		Weekly: each(d.Weekly, func(w Week) api.SignalsWeek {
			return api.SignalsWeek{
				Week: w.Week, Signals: w.Signals, Contributors: w.Contributors, Withholding: s.withholding(w.Suppressed),
			}
		}),
	}
	if d.Skill != nil {
		skill := s.newSummaryOutput(*d.Skill)
		out.Skill = &skill
	}
	return out, err
}
