package requirements

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// Mount adds the routes of requirements.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleView, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/registry/{id}/requirements",
		Summary: "Get what a skill requires, and which skills require it",
	})
	httpapi.Add(a, s.handlePlan, httpapi.Route{
		Permission: access.Read, Method: "POST", Path: "/api/v1/registry/requirements",
		Summary: "Get the skills to install along with others; changes nothing",
	})
}

// SkillOutput is a version of a skill in API replies.
type SkillOutput struct {
	EntryID      string `json:"entry_id" format:"uuid"`
	Name         string `json:"name" example:"pdf-tables"`
	Organisation string `json:"organisation" example:"acme"`
	Version      string `json:"version" example:"1.2.0"`
	ContentHash  string `json:"content_hash"`
}

func newSkillOutput(s Skill) SkillOutput {
	return SkillOutput{s.EntryID, s.Name, s.OrgName, s.Version, s.ContentHash}
}

// Output is a requirement in API replies.
type Output struct {
	Name         string  `json:"name" example:"pdf-tables"`
	Organisation *string `json:"organisation" doc:"As written; null: that of the skill"`
	Range        *string `json:"range" example:">= 1.2" doc:"null: any version"`
	State        State   `json:"state" enum:"met,missing,unmet,withdrawn" doc:"missing: there is none that you may see; unmet: the range does not allow the current version; withdrawn: it allows only withdrawn ones"`
	Problem      *string `json:"problem" doc:"In words; null if it is met"`
	// Skill is nil if the requirement is missing.
	Skill *SkillOutput `json:"skill" doc:"The current version; null if it is missing"`
}

// NewOutputs converts requirements for the API.
func NewOutputs(all []Found) []Output {
	out := make([]Output, len(all))
	for i, f := range all {
		out[i] = Output{
			Name: f.Name, Organisation: text(f.Org), Range: text(f.Range), State: f.State, Problem: text(f.Problem()),
		}
		if f.Skill.VersionID != "" {
			s := newSkillOutput(f.Skill)
			out[i].Skill = &s
		}
	}
	return out
}

// text is nil for "", which the API shows as null.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// neededOutput is a skill to install as well, and which skills need it.
type neededOutput struct {
	SkillOutput
	RequiredBy []string `json:"required_by" nullable:"false" doc:"Names of the skills that require it"`
	Requires   []Output `json:"requires" nullable:"false"`
}

func (g Graph) newOutputs() []neededOutput {
	out := make([]neededOutput, len(g.Needed))
	for i, n := range g.Needed {
		by := make([]string, len(n.By))
		for k, s := range n.By {
			by[k] = s.Name
		}
		out[i] = neededOutput{newSkillOutput(n.Skill), by, NewOutputs(g.Requires[n.VersionID])}
	}
	return out
}

// dependentOutput is a skill that requires the one asked about.
type dependentOutput struct {
	SkillOutput
	Range *string `json:"range" doc:"null: any version"`
	State State   `json:"state" enum:"met,unmet" doc:"Whether the version of this answer meets it"`
}

// viewInput asks about one version; an empty one is the current.
type viewInput struct {
	ID      string `path:"id" doc:"Id of the entry"`
	Version string `query:"version" maxLength:"128" doc:"The current one when empty"`
}

type viewOutput struct {
	SkillOutput
	Requires   []Output          `json:"requires" nullable:"false" doc:"In the order of its SKILL.md"`
	Skills     []neededOutput    `json:"skills" nullable:"false" doc:"All skills that are installed along, nearest first; at most 100"`
	RequiredBy []dependentOutput `json:"required_by" nullable:"false" doc:"Skills whose current version requires the entry, by name; at most 200"`
	Warnings   []string          `json:"warnings" nullable:"false" doc:"What is missing, too old or circular, in words"`
	Truncated  bool              `json:"truncated" doc:"There are more than fit into the lists"`
}

func (s *Service) handleView(ctx context.Context, in viewInput) (out viewOutput, err error) {
	v, err := s.View(ctx, access.From(ctx).OrgID, in.ID, in.Version)
	if err != nil {
		return out, err
	}
	out = viewOutput{
		newSkillOutput(v.Skill), NewOutputs(v.Direct()), v.newOutputs(), make([]dependentOutput, len(v.Dependents)),
		v.Warnings(), v.Truncated || v.More,
	}
	for i, d := range v.Dependents {
		out.RequiredBy[i] = dependentOutput{newSkillOutput(d.Skill), text(d.Range), d.State}
	}
	return out, nil
}

// maxPlanned limits the skills of one plan.
const maxPlanned = 1_000

type planInput struct {
	Body struct {
		Skills []plannedSkill `json:"skills" minItems:"0" doc:"At most 1,000"`
	}
}

type plannedSkill struct {
	EntryID string `json:"entry_id"`
	Version string `json:"version" doc:"The one that is installed"`
}

// planOutput tells a client what else to install, and what it must not remove.
type planOutput struct {
	Skills    []neededOutput `json:"skills" nullable:"false" doc:"All skills that are needed and not among those asked about, nearest first; at most 100"`
	Required  []edgeOutput   `json:"required" nullable:"false" doc:"Which of those asked about require another one of them"`
	Warnings  []string       `json:"warnings" nullable:"false"`
	Truncated bool           `json:"truncated"`
}

// edgeOutput: one of the skills asked about is required by another skill. The client must
// not remove it alone.
type edgeOutput struct {
	EntryID    string `json:"entry_id" format:"uuid"`
	RequiredBy string `json:"required_by" doc:"Name of the skill"`
}

// handlePlan is a POST because a client may have a thousand skills, too many for a URL.
// It changes nothing.
func (s *Service) handlePlan(ctx context.Context, in planInput) (out planOutput, err error) {
	if len(in.Body.Skills) > maxPlanned {
		return out, fault.Invalid("skills", "skills must be at most %d", maxPlanned)
	}
	versions := make([][2]string, len(in.Body.Skills))
	for i, p := range in.Body.Skills {
		versions[i] = [2]string{p.EntryID, p.Version}
	}
	g, err := s.Plan(ctx, access.From(ctx).OrgID, versions)
	return planOutput{g.newOutputs(), g.newEdges(), g.Warnings(), g.Truncated}, err
}

// newEdges lists requirements that lead back to the roots, which Needed leaves out.
func (g Graph) newEdges() []edgeOutput {
	edges := []edgeOutput{}
	roots := map[string]bool{}
	all := g.Roots
	for _, r := range g.Roots {
		roots[r.EntryID] = true
	}
	for _, n := range g.Needed {
		all = append(all, n.Skill)
	}
	for _, from := range all {
		for _, f := range g.Requires[from.VersionID] {
			if roots[f.Skill.EntryID] && from.EntryID != f.Skill.EntryID {
				edges = append(edges, edgeOutput{f.Skill.EntryID, from.Name})
			}
		}
	}
	return edges
}

// allows reports whether a stored range admits a version; "" admits all.
func allows(versions, version string) bool {
	return requires.Requirement{Range: versions}.Allows(version)
}

// Published is the part of a push's reply about requirements.
type Published struct {
	Requires []Output `json:"requires,omitempty" doc:"What metadata.requires of its SKILL.md names"`
	Warnings []string `json:"warnings,omitempty" doc:"What is missing, too old, circular or not understood; the version is published all the same"`
}

// AtPublish looks up what a published version requires. With none, the version is known
// to require nothing, as most are, and no query is made.
func AtPublish(ctx context.Context, q store.Querier, s Skill, problems []requires.Problem, none bool) (p Published, err error) {
	if none {
		return p, nil
	}
	g, err := GraphOf(ctx, q, s.OrgID, []Skill{s})
	if err != nil {
		return p, err
	}
	p.Requires = NewOutputs(g.Requires[s.VersionID])
	for _, problem := range problems {
		p.Warnings = append(p.Warnings, "metadata.requires: "+string(problem))
	}
	p.Warnings = append(p.Warnings, g.Warnings()...)
	return p, nil
}
