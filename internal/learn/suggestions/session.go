package suggestions

import (
	"cmp"
	"context"
	"slices"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// A SessionCase is a case to make of a session. Empty fields have defaults.
type SessionCase struct {
	SessionID string // as the agent calls it
	Skill     string // id or name; that of the source, or else what the session failed, or else used
	SourceID  string // that of the suite, or else the newest of the skill
	SuiteID   string // of the source; without one the case is a draft
	Query     string // the first prompt, if it is kept and the caller may read it
	// ShouldNotTrigger expects that the prompt leaves the skill alone.
	ShouldNotTrigger bool
}

// CreateCase makes a case of a session of the caller's organisation: a suggestion that
// the caller has accepted. The same case again replaces the review of it.
func (s *Service) CreateCase(ctx context.Context, c access.Caller, in SessionCase) (r Review, skill sessions.Skill, err error) {
	d, err := s.Sessions.Get(ctx, c, in.SessionID, "", promptWithin)
	if err != nil {
		return r, skill, err
	}
	in.Query = cmp.Or(in.Query, QueryOf(d))
	if in.Query == "" {
		return r, skill, fault.Invalid("query", "query is required: the words of this session are not kept, or not for you")
	}
	if utf8.RuneCountInString(in.Query) > MaxQuery {
		return r, skill, fault.Invalid("query", "query must have at most %d characters", MaxQuery)
	}
	sourceID, skill, err := s.caseTarget(ctx, c.OrgID, in, d.Skills)
	if err != nil {
		return r, skill, err
	}
	rationale, count := "Made of session "+d.SessionID, 1.0
	r, err = s.Review(ctx, c, sourceID, Decision{
		SuggestionID: suggestionID(sourceID, caseKey{normalize(in.Query), !in.ShouldNotTrigger}), Status: Accepted, Query: in.Query,
		ShouldTrigger: !in.ShouldNotTrigger, Evidence: LinkedTelemetry, Provenance: FailedEvaluation, Rationale: &rationale,
		ObservedCount: &count, LastObservedAt: &d.StartedAt,
	}, in.SuiteID)
	return r, skill, err
}

// promptWithin is how many events of a session are searched for its first prompt.
const promptWithin = 200

// QueryOf returns the first prompt of a session that is kept, and short enough for a
// case; "" without one.
func QueryOf(d sessions.Detail) string {
	for _, step := range d.Steps {
		if step.Kind == sessions.Prompt && step.Text != nil && utf8.RuneCountInString(*step.Text) <= MaxQuery {
			return *step.Text
		}
	}
	return ""
}

// caseTarget returns the source that a case goes to, and the skill of the session,
// which the source is linked to.
func (s *Service) caseTarget(
	ctx context.Context, orgID string, in SessionCase, all []sessions.Skill,
) (sourceID string, skill sessions.Skill, err error) {
	if in.SourceID == "" && in.SuiteID != "" {
		suite, err := s.Suites.Get(ctx, orgID, in.SuiteID)
		if err != nil {
			return "", skill, err
		}
		if suite.SourceID == nil {
			return "", skill, fault.New(fault.Conflict, "The suite does not belong to a source")
		}
		in.SourceID = *suite.SourceID
	}
	if in.SourceID == "" {
		if skill, err = chooseSkill(all, in.Skill); err != nil {
			return "", skill, err
		}
		linked, err := s.Sources.List(ctx, orgID, sources.Filter{SkillID: skill.SkillID})
		if err != nil {
			return "", skill, err
		}
		if len(linked) == 0 {
			return "", skill, fault.New(fault.Conflict, "No source is linked to the skill %s: add one to collect cases", skill.Name)
		}
		return linked[0].ID, skill, nil
	}
	src, err := s.Sources.Get(ctx, orgID, in.SourceID)
	if err != nil {
		return "", skill, err
	}
	if in.Skill == "" && src.SkillID != nil {
		in.Skill = *src.SkillID
	}
	if skill, err = chooseSkill(all, in.Skill); err != nil {
		return "", skill, err
	}
	if src.SkillID == nil || *src.SkillID != skill.SkillID {
		return "", skill, fault.New(fault.Conflict, "The source is not linked to the skill %s", skill.Name)
	}
	return src.ID, skill, nil
}

// chooseSkill returns the skill with an id or a name, or without one that which the
// session failed, or else the first, which it used if it used any.
func chooseSkill(all []sessions.Skill, idOrName string) (sessions.Skill, error) {
	of := func(k sessions.Skill) bool { return k.SkillID == idOrName || k.Name == idOrName }
	if idOrName == "" {
		of = func(k sessions.Skill) bool { return k.Outcome == sessions.Failed }
	}
	i := slices.IndexFunc(all, of)
	switch {
	case i >= 0:
		return all[i], nil
	case idOrName != "":
		return sessions.Skill{}, fault.Invalid("skill", "The session did not see this skill")
	case len(all) == 0:
		return sessions.Skill{}, fault.New(fault.Conflict, "The session saw no skill, so there is none to test")
	}
	return all[0], nil
}
