package suggestions

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A SessionCase is a case to make of a session. Empty fields have defaults.
type SessionCase struct {
	SessionID string // as the agent calls it
	Skill     string // id or name; that of the source or the suite, or else the one that was activated
	SourceID  string // linked to the skill; without a suite the case becomes a draft of it
	To        Destination
	Query     string // the first prompt, if it is kept and the caller may read it
	// ShouldNotTrigger expects that the prompt leaves the skill alone.
	ShouldNotTrigger bool
}

// A MadeCase is a case that was made of a session.
type MadeCase struct {
	Skill  sessions.Skill
	Review *Review // of the skill's source; nil if no source is linked to the skill
	Suite  *suites.Suite
	N      int // of the case in the suite, from 0
	Decision
}

// CreateCase makes a case of a session of the caller's organisation. If a source is linked to the
// skill, the case is also a suggestion of it that the caller has accepted. The same case
// again replaces the review of it.
func (s *Service) CreateCase(ctx context.Context, c access.Caller, in SessionCase) (made MadeCase, err error) {
	if err := in.To.check(); err != nil {
		return made, err
	}
	d, err := s.Sessions.Get(ctx, c, in.SessionID, "", promptWithin)
	if err != nil {
		return made, err
	}
	in.Query = cmp.Or(in.Query, QueryOf(d))
	if strings.TrimSpace(in.Query) == "" {
		return made, fault.Invalid("query", "query is required: this session's text isn't stored, or you can't see it")
	}
	if utf8.RuneCountInString(in.Query) > MaxQuery {
		return made, fault.Invalid("query", "query must have at most %d characters", MaxQuery)
	}
	linked, skill, err := s.caseTarget(ctx, c.OrgID, in, d.Skills)
	if err != nil {
		return made, err
	}
	rationale, count := "Made of session "+d.SessionID, 1.0
	made = MadeCase{Skill: skill, Decision: Decision{
		Status: Accepted, Query: in.Query,
		ShouldTrigger: !in.ShouldNotTrigger, Evidence: LinkedTelemetry, Provenance: FailedEvaluation, Rationale: &rationale,
		ObservedCount: &count, LastObservedAt: &d.StartedAt,
	}}
	key := caseKey{normalize(in.Query), !in.ShouldNotTrigger}
	if len(linked) > 0 {
		made.SuggestionID = suggestionID(linked[0], key)
	}
	if in.SourceID != "" && in.To == (Destination{}) {
		r, err := s.Review(ctx, c, in.SourceID, made.Decision, "")
		made.Review = &r
		return made, err
	}
	return made, s.DB.InTx(ctx, func(tx *store.Tx) error { return s.addCase(ctx, tx, c, in.To, linked, key, &made) })
}

// addCase adds a case to its suite, and records that in the first of the skill's sources.
func (s *Service) addCase(
	ctx context.Context, tx *store.Tx, c access.Caller, to Destination, linked []string, key caseKey, made *MadeCase,
) (err error) {
	// A lock on the skill, or on its source, keeps calls at the same time from making a suite each.
	var src sources.Source
	if len(linked) > 0 {
		src, err = s.Sources.Lock(ctx, tx, c.OrgID, linked[0])
	} else {
		err = skills.Lock(ctx, tx, c.OrgID, made.Skill.SkillID)
	}
	if err != nil {
		return err
	}
	suite, _, err := s.add(ctx, tx, c, to, linked, made.Skill.Name, []Decision{made.Decision})
	if err != nil {
		return err
	}
	made.Suite, made.N = &suite, slices.IndexFunc(suite.Cases, func(c suites.Case) bool {
		return key == caseKey{normalize(c.Query), c.Expectation == suites.ShouldTrigger}
	})
	if len(linked) == 0 {
		return nil
	}
	r, err := saveReview(ctx, tx, src, newApplied(c, src, made.Decision, suite.ID))
	made.Review = &r
	return err
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

// caseTarget returns the skill that a case tests, and the ids of the sources that are linked
// to it: first the one that was asked for, or the one of the suite, and then the newest.
func (s *Service) caseTarget(
	ctx context.Context, orgID string, in SessionCase, all []sessions.Skill,
) (linked []string, skill sessions.Skill, err error) {
	var src sources.Source
	if in.SourceID != "" {
		if src, err = s.Sources.Get(ctx, orgID, in.SourceID); err != nil {
			return nil, skill, err
		}
	}
	if in.To.SuiteID != "" {
		suite, err := s.Suites.Get(ctx, orgID, in.To.SuiteID)
		if err != nil {
			return nil, skill, err
		}
		if in.SourceID != "" && (suite.SourceID == nil || *suite.SourceID != src.ID) {
			return nil, skill, fault.New(fault.Conflict, "The suite does not belong to this source")
		}
		if suite.SourceID != nil {
			src, err = s.Sources.Get(ctx, orgID, *suite.SourceID)
			if err != nil && !fault.Is(err, fault.NotFound) { // a suite may outlive its source
				return nil, skill, err
			}
		}
	}
	of := func(k sessions.Skill) bool { return src.SkillID != nil && *src.SkillID == k.SkillID }
	if in.Skill == "" && slices.ContainsFunc(all, func(k sessions.Skill) bool { return of(k) && Took(k) }) {
		in.Skill = *src.SkillID
	}
	if skill, err = chooseSkill(all, in.Skill); err != nil {
		return nil, skill, err
	}
	if in.SourceID != "" && !of(skill) {
		return nil, skill, fault.New(fault.Conflict, "The source is not linked to the skill %s", skill.Name)
	}
	if of(skill) {
		linked = []string{src.ID}
	}
	found, err := s.Sources.List(ctx, orgID, sources.Filter{SkillID: skill.SkillID})
	for _, k := range found {
		if k.ID != src.ID {
			linked = append(linked, k.ID)
		}
	}
	return linked, skill, err
}

// Took reports whether a skill of a session had a part in it that a case can be about: one
// that was merely on offer had none.
func Took(k sessions.Skill) bool { return k.Activated || !k.Offered || k.Outcome == sessions.Failed }

// chooseSkill returns the skill with an id or a name. By default that is the activated skill, or
// else the only one that took part.
func chooseSkill(all []sessions.Skill, idOrName string) (skill sessions.Skill, err error) {
	if idOrName != "" {
		i := slices.IndexFunc(all, func(k sessions.Skill) bool { return k.SkillID == idOrName || k.Name == idOrName })
		if i < 0 {
			return skill, fault.Invalid("skill", "The session did not see this skill")
		}
		if !Took(all[i]) {
			return skill, fault.New(fault.Conflict, "The skill %s was only on offer in this session, so there is nothing to test",
				all[i].Name)
		}
		return all[i], nil
	}
	var names []string
	for _, takes := range []func(sessions.Skill) bool{func(k sessions.Skill) bool { return k.Activated }, Took} {
		for _, k := range all {
			if takes(k) {
				skill, names = k, append(names, k.Name)
			}
		}
		if len(names) == 1 {
			return skill, nil
		}
		if len(names) > 1 {
			return skill, fault.Invalid("skill", "The session used several skills, choose one: %s", strings.Join(names, ", "))
		}
	}
	if len(all) == 0 {
		return skill, fault.New(fault.Conflict, "The session saw no skill, so there is none to test")
	}
	return skill, fault.New(fault.Conflict, "The session used no skill: %s was only on offer", all[0].Name)
}
