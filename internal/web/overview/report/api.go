package report

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
)

// Mount adds the route of the report. The path says "catalogue", as it did when it
// was published; see listing for the word.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleReport, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/catalogue-report",
		Summary: "What agents are offered: cost, truncated descriptions, overlaps, unused skills",
	})
}

// reportInput selects what the report is about, and a page of its skills. Page and
// selection are of the skills only; all other parts are about all of them.
type reportInput struct {
	httpapi.Page
	Agent  listing.Agent `query:"agent" default:"claude-code" enum:"claude-code,codex" doc:"Whose rules say what is listed"`
	Window int64         `query:"context_window" default:"0" minimum:"0" maximum:"10000000" doc:"Of the model, in tokens, from 1000 on; 0: 200000 for Claude Code, 272000 for Codex"`
	Days   int           `query:"days" default:"30" minimum:"1" maximum:"365" doc:"Window of sessions and runs in days, today included"`
	Q      string        `query:"q" maxLength:"200" doc:"Text to find in the names of skills"`
	Show   string        `query:"show" default:"all" enum:"all,cut,unused,switch_off" doc:"Which skills to list: all, those whose description is not seen whole, those without a use, those to switch off"`
	Sort   string        `query:"sort" default:"name" enum:"name,-tokens,-cut,uses" doc:"Order of the skills: by name, the largest first, those that lose most first, those with the fewest uses first"`
}

// budgetOutput has the fields of Catalogue, which makes them convertible.
type budgetOutput struct {
	Unit   listing.Unit `json:"unit" enum:"characters,tokens"`
	Limit  int64        `json:"limit" example:"8000"`
	Needed int64        `json:"needed" doc:"To list every description whole"`
	Used   int64        `json:"used" doc:"By what is listed"`
}

// totalsOutput has sums over all skills. Full to Hidden add up to Skills.
type totalsOutput struct {
	Skills            int      `json:"skills" doc:"In the registry"`
	Others            int      `json:"others" doc:"That agents reported and the registry does not have; their descriptions are unknown"`
	Full              int      `json:"full" doc:"Listed with the whole description"`
	Truncated         int      `json:"truncated" doc:"Listed with a part of it"`
	NameOnly          int      `json:"name_only" doc:"Listed without it"`
	Omitted           int      `json:"omitted" doc:"Not listed for want of space"`
	Hidden            int      `json:"hidden" doc:"Not listed since SKILL.md says so"`
	CutCharacters     int      `json:"cut_characters" doc:"Of descriptions that the model does not see"`
	Unused            int      `json:"unused"`
	TokensPerSession  int64    `json:"tokens_per_session" doc:"Of the whole listing; four bytes a token"`
	DollarsPerSession *float64 `json:"dollars_per_session" doc:"Null if the price or the number of requests is unknown"`
	DollarsInWindow   *float64 `json:"dollars_in_window" doc:"In all sessions of the window"`
	LeftOut           bool     `json:"left_out" doc:"Whether there are more than 10000 skills; the others are not in the report"`
}

// skillOutput is one skill of the listing. Null means unknown throughout: agents
// differ in what they report.
type skillOutput struct {
	Name              string             `json:"name" example:"pdf-tables"`
	SkillID           *string            `json:"skill_id" format:"uuid"`
	EntryID           *string            `json:"entry_id" format:"uuid" doc:"Null if it is not in the registry"`
	Version           *string            `json:"version" doc:"The current one"`
	Form              *listing.Form      `json:"form" enum:"full,truncated,name_only,omitted,hidden" doc:"How much the model sees; null if the description is unknown"`
	Description       *string            `json:"description" doc:"As the agent would list it with an unlimited budget"`
	Kept              *int               `json:"kept_characters" doc:"How many characters of description the model sees"`
	Cut               *string            `json:"cut" doc:"The rest of it"`
	Tokens            *int64             `json:"tokens_per_session"`
	DollarsPerSession *float64           `json:"dollars_per_session"`
	OfferedSessions   *int64             `json:"offered_sessions" doc:"Null if no agent reported offers of it"`
	UsedSessions      *int64             `json:"used_sessions" doc:"Null if agents reported nothing"`
	Uses              int64              `json:"uses" doc:"Reported activations, also those without a session"`
	Use               Use                `json:"use" enum:"used,unused,unknown"`
	Basis             *Basis             `json:"basis" enum:"offered,all_sessions" doc:"Which sessions the next fields are about: those that were offered the skill, or all, which is the most that can be"`
	TokensInWindow    *int64             `json:"tokens_in_window"`
	DollarsInWindow   *float64           `json:"dollars_in_window"`
	TokensPerUse      *int64             `json:"tokens_per_use" doc:"tokens_in_window / used_sessions"`
	OwnPolicy         bool               `json:"has_openai_yaml" doc:"The version has agents/openai.yaml of its own, which may hide it from Codex"`
	Action            listing.Visibility `json:"action" enum:"on,name-only,user-invocable-only,off"`
	Reason            *string            `json:"reason" doc:"Of an action other than on"`
}

// overlapOutput is a pair of skills for the same requests. Taken and Together are of
// different evidence, so they do not add up.
type overlapOutput struct {
	Skill    string  `json:"skill"`
	TakenBy  string  `json:"taken_by"`
	From     From    `json:"from" enum:"runs,sessions"`
	Taken    int     `json:"taken" doc:"Requests of skill that went to taken_by: trials of trigger cases, or sessions that considered it in vain and activated the other"`
	Together int     `json:"together" doc:"Sessions that activated both"`
	Of       int     `json:"of" doc:"Trials or sessions about skill"`
	RunID    *string `json:"run_id" format:"uuid"`
}

// changeOutput is a request that truncation sends to another skill. The words show
// the author what should move to the beginning of the description.
type changeOutput struct {
	Skill  string   `json:"skill"`
	Query  string   `json:"query"`
	Before *string  `json:"before" doc:"The skill that it finds by whole descriptions; null for none"`
	After  *string  `json:"after" doc:"The skill that it finds by what the model sees; null for none"`
	Lost   []string `json:"lost_words" nullable:"false" doc:"Words of the request in the part that is cut"`
	RunID  string   `json:"run_id" format:"uuid"`
}

// runPairOutput is a run with whole descriptions and one without. Both runs have the
// same suite, skill version and model.
type runPairOutput struct {
	SuiteID string `json:"suite_id" format:"uuid"`
	Suite   string `json:"suite"`
	Skill   string `json:"skill"`
	FullID  string `json:"full_run_id" format:"uuid" doc:"The run with whole descriptions"`
	CutID   string `json:"run_id" format:"uuid" doc:"The run with what the agent lists"`
	Cases   int    `json:"cases"`
	Right   int    `json:"right"`
	Cut     int    `json:"right_truncated"`
}

// measuredOutput is what pairs of runs showed about truncation. It is evidence,
// where routing is a prediction.
type measuredOutput struct {
	Judges    []string        `json:"judges" nullable:"false" doc:"Models that chose"`
	Cases     int             `json:"cases" doc:"Trigger cases that should choose their skill, with a verdict in both runs of a pair"`
	Right     int             `json:"right" doc:"That chose it by whole descriptions"`
	Cut       int             `json:"right_truncated" doc:"That chose it by what the agent lists"`
	Recall    float64         `json:"recall" doc:"right / cases"`
	CutRecall float64         `json:"recall_truncated" doc:"right_truncated / cases"`
	Lost      int             `json:"lost" doc:"That only whole descriptions get right"`
	Won       int             `json:"won" doc:"That only the listing gets right"`
	P         float64         `json:"p_value" doc:"Of lost and won by chance: exact McNemar test"`
	Pairs     []runPairOutput `json:"pairs" nullable:"false" doc:"The newest of each suite; at most 50"`
}

type routingOutput struct {
	Router  string         `json:"router" example:"bm25-1" doc:"The router that runs without a model use"`
	Cases   int            `json:"cases" doc:"Trigger cases of the newest run of each suite"`
	Right   int            `json:"right" doc:"That find their skill by whole descriptions"`
	Cut     int            `json:"right_truncated" doc:"That find it by what the model sees"`
	Changed int            `json:"changed" doc:"That find another skill, or none"`
	Changes []changeOutput `json:"changes" nullable:"false" doc:"The first 50 of these"`

	Measured *measuredOutput `json:"measured" doc:"What runs on this catalog showed, by the model that runs ask; null if there is no pair of runs"`
}

// settingsOutput is a part of Claude Code's settings. The field is named like that
// of Claude Code's settings.json, to be copied.
type settingsOutput struct {
	SkillOverrides map[string]listing.Visibility `json:"skillOverrides" nullable:"false"`
}

type policyOutput struct {
	Path    string   `json:"path" example:"agents/openai.yaml"`
	Content string   `json:"content"`
	Skills  []string `json:"skills" nullable:"false" doc:"Skills whose folder should have the file"`
}

// switchOffOutput is what to change so that agents list less. It is a proposal: the
// service changes nothing on anyone's machine.
type switchOffOutput struct {
	Skills           int            `json:"skills" doc:"With an action other than on"`
	TokensPerSession int64          `json:"tokens_per_session" doc:"Of the listing afterwards"`
	Budget           budgetOutput   `json:"budget" doc:"Of the listing afterwards"`
	Settings         settingsOutput `json:"claude_code_settings" doc:"For settings.json of Claude Code"`
	Plugins          []string       `json:"plugin_skills" nullable:"false" doc:"Skills of plugins, for which Claude Code ignores skillOverrides: see /plugin"`
	Codex            policyOutput   `json:"codex"`
}

type costlyOutput struct {
	Name         string `json:"name"`
	TokensPerUse int64  `json:"tokens_per_use"`
	UsedSessions int64  `json:"used_sessions"`
}

type reportOutput struct {
	Agent       listing.Agent      `json:"agent" enum:"claude-code,codex"`
	Window      int64              `json:"context_window"`
	Days        int                `json:"days"`
	GeneratedAt httpapi.Time       `json:"generated_at"`
	Budget      budgetOutput       `json:"budget"`
	Sessions    *int64             `json:"sessions" doc:"With model requests, in the window; null if none was reported"`
	Model       *string            `json:"model" doc:"Whose prices are used: the one that is used most; null if no price is known"`
	Reported    bool               `json:"reported" doc:"Whether agents reported anything about skills in the window"`
	Totals      totalsOutput       `json:"totals"`
	Skills      []skillOutput      `json:"skills" nullable:"false"`
	Pagination  httpapi.Pagination `json:"pagination"`
	Costly      []costlyOutput     `json:"costly" nullable:"false" doc:"The used skills whose listing costs most for each use; at most 10"`
	Overlaps    []overlapOutput    `json:"overlaps" nullable:"false" doc:"The most frequent pairs; at most 50 of each kind"`
	Routing     routingOutput      `json:"routing"`
	SwitchOff   switchOffOutput    `json:"switch_off"`

	Retire []api.RetirableSkill `json:"retire" nullable:"false" doc:"Skills that their newest comparison found to give nothing, the dearest first"`
}

// handleReport returns the report. The report is computed for each request: it rests
// on rollups, and takes some ten queries.
func (s *Service) handleReport(ctx context.Context, in reportInput) (out reportOutput, err error) {
	r, err := s.Of(ctx, access.From(ctx).OrgID, Options{Agent: in.Agent, Window: in.Window, Days: in.Days})
	if err != nil {
		return out, err
	}
	page, total := r.Select(Selection{Search: in.Q, Show: in.Show, Sort: in.Sort, Limit: in.PerPage, Offset: in.Offset()})
	out = reportOutput{
		Agent: r.Agent, Window: r.Window, Days: r.Days, GeneratedAt: httpapi.Time(r.Generated), Budget: budgetOutput(r.Catalogue),
		Sessions: r.Sessions, Model: orNull(r.Model), Reported: r.Reported, Totals: totalsOutput{
			Skills: r.Totals.Skills, Others: r.Totals.Others, Full: r.Totals.Full, Truncated: r.Totals.Truncated,
			NameOnly: r.Totals.NameOnly, Omitted: r.Totals.Omitted, Hidden: r.Totals.Hidden,
			CutCharacters: r.Totals.CutText, Unused: r.Totals.Unused, TokensPerSession: r.Totals.Tokens,
			DollarsPerSession: r.Totals.PerSession, DollarsInWindow: r.Totals.InWindow,
			LeftOut: r.Totals.LeftOut,
		},
		Skills: mapped(page, outputOf), Pagination: in.Of(total),
		Costly: mapped(r.Costly(10), func(k Skill) costlyOutput {
			return costlyOutput{Name: k.Name, TokensPerUse: *k.TokensPerUse, UsedSessions: *k.UsedSessions}
		}),
		Overlaps: mapped(r.Overlaps, func(o Overlap) overlapOutput {
			return overlapOutput{o.Skill, o.TakenBy, o.From, o.Taken, o.Together, o.Of, orNull(o.RunID)}
		}),
		Routing: routingOutput{
			Router: Router, Cases: r.Routing.Cases, Right: r.Routing.Right, Cut: r.Routing.Cut, Changed: r.Routing.ChangedInTotal,
			Changes: mapped(r.Routing.Changed, func(c Change) changeOutput {
				return changeOutput{c.Skill, c.Query, orNull(c.Before), orNull(c.After), mapped(c.Lost, same), c.RunID}
			}),
			Measured: measuredOf(r.Routing.Measured),
		},
		SwitchOff: switchOffOutput{
			Skills: len(r.Switch.Skills), TokensPerSession: r.Switch.Tokens, Budget: budgetOutput(r.Switch.After),
			Settings: settingsOutput{SkillOverrides: r.Switch.Overrides}, Plugins: mapped(r.Switch.Plugins, same),
			Codex: policyOutput{Path: PolicyPath, Content: PolicyFile, Skills: mapped(r.Switch.Implicit, same)},
		},
		Retire: r.Retire,
	}
	return out, nil
}

func measuredOf(m *Measured) *measuredOutput {
	if m == nil {
		return nil
	}
	return &measuredOutput{
		Judges: m.Judges, Cases: m.Cases, Right: m.Right, Cut: m.Cut, Recall: m.Recall(), CutRecall: m.CutRecall(),
		Lost: m.Lost, Won: m.Won, P: m.P, Pairs: mapped(m.Pairs, func(p RunPair) runPairOutput { return runPairOutput(p) }),
	}
}

// outputOf converts a skill. One that the registry lacks has no text to list.
func outputOf(k Skill) skillOutput {
	out := skillOutput{
		Name: k.Name, SkillID: orNull(k.SkillID), EntryID: orNull(k.EntryID), Version: orNull(k.Version),
		Tokens: k.Tokens, DollarsPerSession: k.DollarsPerSession, OfferedSessions: k.OfferedSessions,
		UsedSessions: k.UsedSessions,
		Uses:         k.Uses, Use: k.Use, TokensInWindow: k.TokensInWindow, DollarsInWindow: k.DollarsInWindow,
		TokensPerUse: k.TokensPerUse,
		OwnPolicy:    k.OwnPolicy, Action: k.Action, Reason: orNull(k.Reason), Basis: orNull(k.Basis),
	}
	if k.InRegistry {
		cut := k.Line.Cut()
		out.Form, out.Description, out.Kept, out.Cut = &k.Line.Form, &k.Line.Text, &k.Line.Kept, &cut
	}
	return out
}

func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}

func same(s string) string { return s }

// mapped never returns nil, which JSON would show as null.
func mapped[T, U any](all []T, f func(T) U) []U {
	out := make([]U, len(all))
	for i, v := range all {
		out[i] = f(v)
	}
	return out
}
