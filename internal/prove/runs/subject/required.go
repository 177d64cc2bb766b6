package subject

import (
	"context"
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// Required is a skill that the subject of a run requires, pinned when the run starts.
// It is present in all arms, so the arms still differ in the subject only.
type Required = api.EvalRequired

// Beside returns the skills that compete with the subject of a run, and pins in
// subject.Requires what the subject requires; required skills compete as well. With a
// previous version, both arms have what either version requires.
func (f Finder) Beside(ctx context.Context, orgID string, subject, previous *Pinned, seed int64) ([]judge.Skill, error) {
	others, err := f.Distractors(ctx, orgID, subject.Name, seed)
	if err != nil {
		return nil, err
	}
	pins := []Ref{subject.Pin}
	if previous != nil {
		pins = append(pins, previous.Pin)
	}
	for _, pin := range pins {
		if pin == (Ref{}) { // there is no skill
			continue
		}
		g, err := f.requirementsOf(ctx, orgID, pin)
		if err != nil {
			return nil, err
		}
		for _, n := range g.Needed {
			known := slices.ContainsFunc(others, func(s judge.Skill) bool { return s.Name == n.Name })
			if !known && n.Name != subject.Name {
				others = append(others, judge.Skill{Name: n.Name, Description: n.Description})
			}
		}
		subject.add(g)
	}
	return others, nil
}

// add pins what a graph requires. Agents tell skills apart by name, so a second skill
// of the same name is left out.
func (p *Pinned) add(g requirements.Graph) {
	// A graph that was made from a text rather than a version has its root under "".
	from := []string{""}
	for _, r := range g.Roots {
		from = append(from, r.VersionID)
	}
	for _, n := range g.Needed {
		from = append(from, n.VersionID)
	}
	for _, id := range from {
		for _, f := range g.Requires[id] {
			r := Required{Name: f.Name, Organisation: f.Org, State: string(f.State)}
			if s := f.Skill; s.VersionID != "" {
				r = Required{
					Name: s.Name, Organisation: s.OrgName, EntryID: s.EntryID, Version: s.Version, ContentHash: s.ContentHash,
					State: string(f.State),
				}
			}
			known := slices.ContainsFunc(p.Requires, func(k Required) bool { return k.Name == r.Name })
			if !known && r.Name != p.Name && len(p.Requires) < requirements.MaxSkills {
				p.Requires = append(p.Requires, r)
			}
		}
	}
}

// requirementsOf returns what a pinned skill requires: from the registry for a version,
// from SKILL.md for a snapshot.
func (f Finder) requirementsOf(ctx context.Context, orgID string, pin Ref) (g requirements.Graph, err error) {
	known := &requirements.Service{DB: f.Registry.DB}
	if pin.EntryID != "" {
		return known.Plan(ctx, orgID, [][2]string{{pin.EntryID, pin.Version}})
	}
	skill, err := f.Find(ctx, orgID, pin)
	if err != nil {
		return g, err
	}
	text, err := skill.Text(ctx)
	if err != nil {
		return g, err
	}
	parsed, err := skillpkg.ParseSkill([]byte(text))
	if err != nil {
		return g, nil //nolint:nilerr // it has no requirements that could be read
	}
	var all []requires.Requirement
	all, _ = requirements.Of(parsed)
	return requirements.GraphOfText(ctx, f.Registry.DB, orgID, all)
}

// Required returns the content of a required skill as it was pinned.
func (f Finder) Required(ctx context.Context, orgID string, r Required) (Skill, error) {
	return f.FindPinned(ctx, orgID, Pinned{
		Name: r.Name, ContentHash: r.ContentHash, Pin: Ref{EntryID: r.EntryID, Version: r.Version},
	})
}
