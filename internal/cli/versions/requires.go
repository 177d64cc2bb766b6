package versions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// requirementsOf returns the requirements of a version of an entry; version "" means
// the current one.
func requirementsOf(ctx context.Context, s *server.Session, entryID, version string) (v api.Requirements, err error) {
	path := "/api/v1/registry/" + url.PathEscape(entryID) + "/requirements?" + url.Values{"version": {version}}.Encode()
	return v, s.Call(ctx, http.MethodGet, path, nil, &v)
}

// requiresCommand selects a version.
type requiresCommand struct {
	server.Flags `embed:""`
	Name         string `arg:"" names:"entries" help:"Name or id of the entry; NAME@VERSION for one that is not current."`
}

// Run shows the requirements of a skill as a tree, and the skills that require it.
func (c *requiresCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		name, version := c.Name, ""
		if at := strings.LastIndex(c.Name, "@"); at > 0 {
			name, version = c.Name[:at], c.Name[at+1:]
		}
		id := name
		if !server.IsID(name) {
			entry, err := s.OwnEntry(ctx, name)
			if err != nil {
				return err
			}
			id = entry.ID
		}
		v, err := requirementsOf(ctx, s, id, version)
		if err != nil {
			return err
		}
		return p.Print(v, func(w io.Writer) { writeRequirements(w, v) })
	})
}

// writeRequirements prints them for people.
func writeRequirements(w io.Writer, v api.Requirements) {
	fmt.Fprintf(w, "%s %s\n", term.Plain(v.Name), term.Plain(v.Version))
	t := requirementTree{w: w, requires: map[string][]api.Requirement{}, shown: map[string]bool{v.EntryID: true}}
	for _, n := range v.Skills {
		t.requires[n.EntryID] = n.Requires
	}
	t.write(v.Requires, "")
	if len(v.Requires) == 0 {
		fmt.Fprintln(w, "It requires no other skill.")
	}
	if v.Truncated {
		fmt.Fprintln(w, "There are more; the rest is left out.")
	}
	if len(v.RequiredBy) == 0 {
		fmt.Fprintln(w, "No skill requires it.")
		return
	}
	fmt.Fprintln(w, "Required by:")
	for _, d := range v.RequiredBy {
		label := requires.Label(otherOrganisation(v, d.Organisation), d.Name)
		line := fmt.Sprintf("  %s %s", term.Plain(label), term.Plain(d.Version))
		if d.Range != nil {
			line += ", needs " + term.Plain(*d.Range)
		}
		if d.State != "met" {
			line += ": not met"
		}
		fmt.Fprintln(w, line)
	}
}

// otherOrganisation returns the name of an organisation, or "" if it is the skill's own, which
// labels leave out.
func otherOrganisation(v api.Requirements, org string) string {
	if org == v.Organisation {
		return ""
	}
	return org
}

// A requirementTree writes requirements below each other. Each skill's own requirements
// are written once, so that cycles and shared dependencies end.
type requirementTree struct {
	w        io.Writer
	requires map[string][]api.Requirement // requirements by entry id
	shown    map[string]bool              // entries whose requirements were written
}

// maxTreeDepth is the depth from which on the tree is cut off.
const maxTreeDepth = 20

// write writes one level of the tree, and recursively the levels below it.
func (t requirementTree) write(all []api.Requirement, indent string) {
	for i, r := range all {
		branch, below := "├── ", "│   "
		if i == len(all)-1 {
			branch, below = "└── ", "    "
		}
		label := r.Name
		if r.Organisation != nil {
			label = requires.Label(*r.Organisation, r.Name)
		}
		if r.Range != nil {
			label += " " + *r.Range
		}
		again := ""
		if r.Skill != nil && t.shown[r.Skill.EntryID] {
			again = ", see above"
		}
		fmt.Fprintf(t.w, "%s%s%s: %s%s\n", indent, branch, term.Plain(label), term.Plain(requirementState(r)), again)
		if r.Skill == nil || t.shown[r.Skill.EntryID] || len(indent) > maxTreeDepth*len(below) {
			continue
		}
		t.shown[r.Skill.EntryID] = true
		t.write(t.requires[r.Skill.EntryID], indent+below)
	}
}

// requirementState formats what meets the requirement: a version, or the problem.
func requirementState(r api.Requirement) string {
	switch {
	case r.State == "met" && r.Skill != nil:
		return r.Skill.Version
	case r.Problem != nil:
		return *r.Problem
	}
	return r.State
}

// maxNoted is how many skills a note names before it says "and N more".
const maxNoted = 10

// noteDependents notes which skills require an entry whose current version changed, and
// which of them the new version does not suit. It is a courtesy, so errors are ignored:
// the change itself has succeeded.
func noteDependents(ctx context.Context, p *term.Program, s *server.Session, entryID string) {
	v, err := requirementsOf(ctx, s, entryID, "")
	if err != nil || len(v.RequiredBy) == 0 {
		return
	}
	var names, unmet []string
	for _, d := range v.RequiredBy {
		label := requires.Label(otherOrganisation(v, d.Organisation), d.Name)
		names = append(names, label)
		if d.State != "met" {
			unmet = append(unmet, label)
		}
	}
	p.Note("%s is required by %s", term.Plain(v.Name), term.Plain(listNames(names)))
	if len(unmet) > 0 {
		p.Note("warning: version %s is not what %s needs", term.Plain(v.Version), term.Plain(listNames(unmet)))
	}
}

// listNames joins names, at most maxNoted of them.
func listNames(names []string) string {
	if more := len(names) - maxNoted; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNoted], ", "), more)
	}
	return strings.Join(names, ", ")
}
