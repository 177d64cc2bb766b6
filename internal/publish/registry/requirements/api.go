package requirements

import (
	"context"

	"github.com/whetstone-dev/whetstone/client/api"
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

func newSkillOutput(s Skill) api.RequiredSkill {
	return api.RequiredSkill{
		EntryID: s.EntryID, Name: s.Name, Organisation: s.OrgName, Version: s.Version, ContentHash: s.ContentHash,
	}
}

// NewOutputs converts requirements for the API.
func NewOutputs(all []Found) []api.Requirement {
	out := make([]api.Requirement, len(all))
	for i, f := range all {
		out[i] = api.Requirement{
			Name: f.Name, Organisation: text(f.Org), Range: text(f.Range), State: string(f.State), Problem: text(f.Problem()),
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

func (g Graph) newOutputs() []api.NeededSkill {
	out := make([]api.NeededSkill, len(g.Needed))
	for i, n := range g.Needed {
		by := make([]string, len(n.By))
		for k, s := range n.By {
			by[k] = s.Name
		}
		out[i] = api.NeededSkill{
			RequiredSkill: newSkillOutput(n.Skill), RequiredBy: by, Requires: NewOutputs(g.Requires[n.VersionID]),
		}
	}
	return out
}

// viewInput asks about one version; an empty one is the current.
type viewInput struct {
	ID      string `path:"id" doc:"Id of the entry"`
	Version string `query:"version" maxLength:"128" doc:"The current one when empty"`
}

func (s *Service) handleView(ctx context.Context, in viewInput) (out api.Requirements, err error) {
	v, err := s.View(ctx, access.From(ctx).OrgID, in.ID, in.Version)
	if err != nil {
		return out, err
	}
	out = api.Requirements{
		RequiredSkill: newSkillOutput(v.Skill), Requires: NewOutputs(v.Direct()), Skills: v.newOutputs(),
		RequiredBy: make([]api.DependentSkill, len(v.Dependents)), Warnings: v.Warnings(), Truncated: v.Truncated || v.More,
	}
	for i, d := range v.Dependents {
		out.RequiredBy[i] = api.DependentSkill{
			RequiredSkill: newSkillOutput(d.Skill), Range: text(d.Range), State: string(d.State),
		}
	}
	return out, nil
}

// maxPlanned limits the skills of one plan.
const maxPlanned = 1_000

type planInput struct {
	Body struct {
		Skills []api.PlannedSkill `json:"skills" minItems:"0" doc:"At most 1,000"`
	}
}

// handlePlan is a POST because a client may have a thousand skills, too many for a URL.
// It changes nothing.
func (s *Service) handlePlan(ctx context.Context, in planInput) (out api.InstallPlan, err error) {
	if len(in.Body.Skills) > maxPlanned {
		return out, fault.Invalid("skills", "skills must be at most %d", maxPlanned)
	}
	versions := make([][2]string, len(in.Body.Skills))
	for i, p := range in.Body.Skills {
		versions[i] = [2]string{p.EntryID, p.Version}
	}
	g, err := s.Plan(ctx, access.From(ctx).OrgID, versions)
	return api.InstallPlan{Skills: g.newOutputs(), Required: g.newEdges(), Warnings: g.Warnings(), Truncated: g.Truncated}, err
}

// newEdges lists requirements that lead back to the roots, which Needed leaves out.
func (g Graph) newEdges() []api.RequirementEdge {
	edges := []api.RequirementEdge{}
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
				edges = append(edges, api.RequirementEdge{EntryID: f.Skill.EntryID, RequiredBy: from.Name})
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
	Requires []api.Requirement `json:"requires,omitempty" doc:"What metadata.requires of its SKILL.md names"`
	Warnings []string          `json:"warnings,omitempty" doc:"What is missing, too old, circular or not understood; the version is published all the same"`
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
