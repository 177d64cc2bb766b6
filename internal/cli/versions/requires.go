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

// A requiredSkill is a version of an entry, as the server describes it.
type requiredSkill struct {
	EntryID      string `json:"entry_id"`
	Name         string `json:"name"`
	Organisation string `json:"organisation"`
	Version      string `json:"version"`
	ContentHash  string `json:"content_hash"`
}

// A requirement is one that a SKILL.md names.
type requirement struct {
	Name         string         `json:"name"`
	Organisation *string        `json:"organisation"`
	Range        *string        `json:"range"`
	State        string         `json:"state"` // met, missing, unmet or withdrawn
	Problem      *string        `json:"problem"`
	Skill        *requiredSkill `json:"skill"`
}

// neededSkill is a skill that others require.
type neededSkill struct {
	requiredSkill
	RequiredBy []string      `json:"required_by"`
	Requires   []requirement `json:"requires"`
}

// A requirementsView is one skill with both directions of its requirements.
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

// requirementsOf asks for the requirements of an entry; version may be empty.
func requirementsOf(ctx context.Context, s *server.Session, entryID, version string) (v requirementsView, err error) {
	path := "/api/v1/registry/" + url.PathEscape(entryID) + "/requirements?" + url.Values{"version": {version}}.Encode()
	return v, s.Call(ctx, http.MethodGet, path, nil, &v)
}

type requiresCommand struct {
	server.Flags `embed:""`
	Name         string `arg:"" help:"Name or id of the entry; NAME@VERSION for one that is not current."`
}

// Run shows the tree.
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

// other is the name of an organisation, "" if it is that of the skill.
func (v requirementsView) other(org string) string {
	if org == v.Organisation {
		return ""
	}
	return org
}

// A requirementTree writes requirements below each other, each skill's own once.
type requirementTree struct {
	w        io.Writer
	requires map[string][]requirement // by entry
	shown    map[string]bool
}

// maxTreeDepth is how deep lines are indented.
const maxTreeDepth = 20

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

func (r requirement) state() string {
	switch {
	case r.State == "met" && r.Skill != nil:
		return r.Skill.Version
	case r.Problem != nil:
		return *r.Problem
	}
	return r.State
}

// maxNoted is how many skills a note names.
const maxNoted = 10

// noteDependents tells which skills require an entry whose current version changed.
// It is a courtesy: an error is not shown.
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

func listNames(names []string) string {
	if more := len(names) - maxNoted; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNoted], ", "), more)
	}
	return strings.Join(names, ", ")
}
