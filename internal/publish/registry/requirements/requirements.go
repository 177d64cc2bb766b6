// Package requirements resolves which skills a version needs (metadata.requires in its
// SKILL.md), whether the registry has them, and which skills need a given one. It owns
// the registry's tables registry_requirements and registry_requirement_backfill.
package requirements

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// Limits of a graph.
const (
	// MaxSkills is how many skills are installed along with the requested ones.
	MaxSkills = 100
	// MaxDependents is how many dependents of a skill are listed.
	MaxDependents = 200
)

// A Skill is one version of an entry, as a node of a graph.
type Skill struct {
	EntryID, Name  string
	OrgID, OrgName string
	VersionID      string
	Version        string
	ContentHash    string
	Description    string // of the entry; only set for required skills
}

// A State is whether the registry can satisfy a requirement.
type State string

// The states. Another organisation's private skill is Missing, so that the reply doesn't
// reveal it.
const (
	Met     State = "met"
	Missing State = "missing"
	// Unmet: the range excludes the current version, which is the one that clients
	// install.
	Unmet State = "unmet"
	// Withdrawn: the range allows only versions that were withdrawn.
	Withdrawn State = "withdrawn"
)

// Found is a requirement with the current version of the skill it names. Skill is zero if
// there is none.
type Found struct {
	requires.Requirement
	Skill Skill
	State State
}

// Label names the required skill the way the SKILL.md does, e.g. "acme/pdf".
func (f Found) Label() string { return requires.Label(f.Org, f.Name) }

// Problem explains why a requirement isn't met; "" if it is.
func (f Found) Problem() string {
	switch {
	case f.State == Met:
		return ""
	case f.State == Missing && f.Skill.EntryID != "":
		return fmt.Sprintf("%s has no current version yet", f.Label())
	case f.State == Missing && f.Org != "":
		return fmt.Sprintf("%s is not in the registry, or not public", f.Label())
	case f.State == Missing:
		return fmt.Sprintf("%s is not in the registry", f.Label())
	case f.State == Withdrawn:
		return fmt.Sprintf("%s was withdrawn; the current version is %s", f.Requirement, f.Skill.Version)
	}
	return fmt.Sprintf("%s is needed, but the current version is %s", f.Requirement, f.Skill.Version)
}

// A Dependent is a skill whose current version requires the skill asked about.
type Dependent struct {
	Skill
	Range string
	State State // Met or Unmet, for the version asked about
}

// Needed is a skill that other skills require.
type Needed struct {
	Skill
	// By are the skills in the same graph that require it.
	By []Skill
}

// A Graph is the transitive closure of what skills require.
type Graph struct {
	Roots []Skill
	// Needed are the skills to install as well, nearest first.
	Needed []Needed
	// Requires has the requirements of each version, by version id. Those of a SKILL.md
	// that isn't a version yet are under "".
	Requires map[string][]Found
	// Truncated: there are more than MaxSkills.
	Truncated bool
}

// Of reads the requirements in a SKILL.md, and returns problems with malformed ones.
func Of(skill skillpkg.Skill) ([]requires.Requirement, []requires.Problem) {
	return requires.Parse(skill.Metadata[requires.Key])
}

// GraphOf returns the graph of versions as the organisation may see it. It takes at most
// four queries, whatever the shape of the graph.
func GraphOf(ctx context.Context, q store.Querier, orgID string, roots []Skill) (Graph, error) {
	g := Graph{Roots: roots, Requires: map[string][]Found{}}
	if len(roots) == 0 {
		return g, nil
	}
	ids := make([]string, len(roots))
	for i, r := range roots {
		ids[i] = r.VersionID
	}
	return g, g.load(ctx, q, orgID, ids)
}

// GraphOfText is GraphOf for a SKILL.md that isn't a version yet, e.g. one being linted.
func GraphOfText(ctx context.Context, q store.Querier, orgID string, all []requires.Requirement) (Graph, error) {
	g := Graph{Requires: map[string][]Found{}}
	if len(all) == 0 {
		return g, nil
	}
	found, err := find(ctx, q, orgID, all)
	if err != nil {
		return g, err
	}
	var ids []string
	for _, f := range found {
		if f.Skill.VersionID != "" {
			ids = append(ids, f.Skill.VersionID)
		}
	}
	g.Requires[""] = found
	return g, g.load(ctx, q, orgID, ids)
}

// load reads one more than MaxSkills, so that walk can tell whether the graph is
// truncated.
func (g *Graph) load(ctx context.Context, q store.Querier, orgID string, ids []string) error {
	limit := len(ids) + MaxSkills + 1
	ids, err := closureOf(ctx, q, orgID, ids, limit)
	if err != nil {
		return err
	}
	stored, err := requirementsOf(ctx, q, orgID, ids)
	if err != nil {
		return err
	}
	for id, found := range stored {
		g.Requires[id] = found
	}
	if err := g.setStates(ctx, q); err != nil {
		return err
	}
	g.walk()
	return nil
}

// setStates compares the ranges with current versions, and only looks for withdrawn
// versions if some range isn't met.
func (g *Graph) setStates(ctx context.Context, q store.Querier) error {
	var unmet []string
	each := func(set func(f *Found)) {
		for _, found := range g.Requires {
			for i := range found {
				set(&found[i])
			}
		}
	}
	each(func(f *Found) {
		switch {
		case f.Skill.VersionID == "":
			f.State = Missing
		case f.Allows(f.Skill.Version):
			f.State = Met
		default:
			f.State = Unmet
			unmet = append(unmet, f.Skill.EntryID)
		}
	})
	if len(unmet) == 0 {
		return nil
	}
	withdrawn, err := withdrawnOf(ctx, q, unmet)
	each(func(f *Found) {
		if f.State == Unmet && slices.ContainsFunc(withdrawn[f.Skill.EntryID], f.Allows) {
			f.State = Withdrawn
		}
	})
	return err
}

// walk lists the needed skills breadth first. An entry is listed once, even if several
// versions of it occur in a cycle.
func (g *Graph) walk() {
	seen := map[string]int{} // by entry: index in Needed, or -1 for a root
	queue := slices.Clone(g.Roots)
	for _, r := range g.Roots {
		seen[r.EntryID] = -1
	}
	// Without roots the graph is that of a text: start at its requirements, under "".
	if len(g.Roots) == 0 {
		queue = []Skill{{}}
	}
	for len(queue) > 0 {
		from := queue[0]
		queue = queue[1:]
		for _, f := range g.Requires[from.VersionID] {
			if f.Skill.VersionID == "" {
				continue
			}
			at, known := seen[f.Skill.EntryID]
			if !known {
				if len(g.Needed) == MaxSkills {
					g.Truncated = true
					continue
				}
				at = len(g.Needed)
				seen[f.Skill.EntryID] = at
				g.Needed = append(g.Needed, Needed{Skill: f.Skill})
				queue = append(queue, f.Skill)
			}
			if at >= 0 && from.EntryID != "" && from.EntryID != f.Skill.EntryID {
				g.Needed[at].By = append(g.Needed[at].By, from)
			}
		}
	}
}

// Cycle returns the shortest cycle through root, e.g. "a", "b", "a"; nil if there is
// none.
func (g *Graph) Cycle(root Skill) []string {
	type step struct {
		skill  Skill
		before *step
	}
	seen := map[string]bool{}
	queue := []*step{{skill: root}}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, f := range g.Requires[at.skill.VersionID] {
			if f.Skill.EntryID == root.EntryID && root.EntryID != "" {
				way := []string{root.Name}
				for ; at != nil; at = at.before {
					way = append(way, at.skill.Name)
				}
				slices.Reverse(way)
				return way
			}
			if f.Skill.VersionID != "" && !seen[f.Skill.EntryID] {
				seen[f.Skill.EntryID] = true
				queue = append(queue, &step{f.Skill, at})
			}
		}
	}
	return nil
}

// Warnings describes the problems in the graph in sentences: first what the roots lack,
// then the rest.
func (g *Graph) Warnings() []string {
	warnings := []string{}
	add := func(s Skill) {
		for _, f := range g.Requires[s.VersionID] {
			switch problem := f.Problem(); {
			case problem == "":
			case s.Name == "":
				warnings = append(warnings, problem)
			default:
				warnings = append(warnings, fmt.Sprintf("%s requires %s: %s", s.Name, f.Requirement, problem))
			}
		}
	}
	roots := g.Roots
	if len(roots) == 0 {
		roots = []Skill{{}}
	}
	for _, r := range roots {
		add(r)
		if way := g.Cycle(r); len(way) == 2 {
			warnings = append(warnings, r.Name+" requires itself")
		} else if way != nil {
			warnings = append(warnings, "Skills require each other: "+shorten(way))
		}
	}
	for _, n := range g.Needed {
		add(n.Skill)
	}
	if g.Truncated {
		warnings = append(warnings, fmt.Sprintf("More than %d skills are required; the rest is left out", MaxSkills))
	}
	return warnings
}

// maxWay is how many names of a cycle are shown.
const maxWay = 8

// shorten elides the middle of a long cycle: "a -> b -> ... -> a".
func shorten(way []string) string {
	if len(way) > maxWay {
		way = slices.Concat(way[:maxWay-2], []string{"..."}, way[len(way)-1:])
	}
	return strings.Join(way, " -> ")
}
