package versions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// A requiredSkill is a version of an entry, as the API describes it.
type requiredSkill struct {
	EntryID      string `json:"entry_id"`
	Name         string `json:"name"`
	Organisation string `json:"organisation"`
	Version      string `json:"version"`
	ContentHash  string `json:"content_hash"`
}

// A requirement is one that a SKILL.md declares, as the API describes it. Organisation
// and Range are nil if it names none; Skill is nil if nothing meets it.
type requirement struct {
	Name         string         `json:"name"`
	Organisation *string        `json:"organisation"`
	Range        *string        `json:"range"`
	State        string         `json:"state"` // met, missing, unmet or withdrawn
	Problem      *string        `json:"problem"`
	Skill        *requiredSkill `json:"skill"`
}

// A neededSkill is a skill that others require, with its own requirements. Graphs have
// shared nodes, so the API sends each skill once.
type neededSkill struct {
	requiredSkill
	RequiredBy []string      `json:"required_by"`
	Requires   []requirement `json:"requires"`
}

// A requirementsView is one skill with both directions of its requirements: Requires
// are its own, Skills are all that it needs directly or indirectly, RequiredBy are its
// dependents. Truncated reports that there are more than the API sends.
type requirementsView struct {
	requiredSkill
	Requires   []requirement `json:"requires"`
	Skills     []neededSkill `json:"skills"`
	RequiredBy []struct {
		requiredSkill
		Range *string `json:"range"`
		State string  `json:"state"`
	} `json:"required_by"`
	Warnings  []string `json:"warnings"`
	Truncated bool     `json:"truncated"`
}

// requirementsOf returns the requirements of a version of an entry; version "" means
// the current one.
func requirementsOf(ctx context.Context, s *server.Session, entryID, version string) (v requirementsView, err error) {
	path := "/api/v1/registry/" + url.PathEscape(entryID) + "/requirements?" + url.Values{"version": {version}}.Encode()
	return v, s.Call(ctx, http.MethodGet, path, nil, &v)
}

// requiresCommand selects a version.
type requiresCommand struct {
	server.Flags `embed:""`
	Name         string `arg:"" help:"Name or id of the entry; NAME@VERSION for one that is not current."`
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
		return p.Print(v, func(w io.Writer) { v.write(w) })
	})
}

// write prints the view for people.
func (v requirementsView) write(w io.Writer) {
	fmt.Fprintf(w, "%s %s\n", term.Plain(v.Name), term.Plain(v.Version))
	t := requirementTree{w: w, requires: map[string][]requirement{}, shown: map[string]bool{v.EntryID: true}}
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
		line := fmt.Sprintf("  %s %s", term.Plain(requires.Label(v.other(d.Organisation), d.Name)), term.Plain(d.Version))
		if d.Range != nil {
			line += ", needs " + term.Plain(*d.Range)
		}
		if d.State != "met" {
			line += ": not met"
		}
		fmt.Fprintln(w, line)
	}
}

// other returns the name of an organisation, or "" if it is the skill's own, which
// labels leave out.
func (v requirementsView) other(org string) string {
	if org == v.Organisation {
		return ""
	}
	return org
}

// A requirementTree writes requirements below each other. Each skill's own requirements
// are written once, so that cycles and shared dependencies end.
type requirementTree struct {
	w        io.Writer
	requires map[string][]requirement // requirements by entry id
	shown    map[string]bool          // entries whose requirements were written
}

// maxTreeDepth is the depth from which on the tree is cut off.
const maxTreeDepth = 20

// write writes one level of the tree, and recursively the levels below it.
func (t requirementTree) write(all []requirement, indent string) {
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
		fmt.Fprintf(t.w, "%s%s%s: %s%s\n", indent, branch, term.Plain(label), term.Plain(r.state()), again)
		if r.Skill == nil || t.shown[r.Skill.EntryID] || len(indent) > maxTreeDepth*len(below) {
			continue
		}
		t.shown[r.Skill.EntryID] = true
		t.write(t.requires[r.Skill.EntryID], indent+below)
	}
}

// state formats what meets the requirement: a version, or the problem.
func (r requirement) state() string {
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
		label := requires.Label(v.other(d.Organisation), d.Name)
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
