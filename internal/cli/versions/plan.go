package versions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// A plannedVersion is a skill that is installed, or will be.
type plannedVersion struct {
	EntryID string `json:"entry_id"`
	Version string `json:"version"`
}

// An installPlan is what has to be installed along with skills.
type installPlan struct {
	Skills   []neededSkill     `json:"skills"`
	Required []requirementEdge `json:"required"`
	Warnings []string          `json:"warnings"`
}

// A requirementEdge says that a skill that was asked about requires another one of them.
type requirementEdge struct {
	EntryID    string `json:"entry_id"`
	RequiredBy string `json:"required_by"`
}

// askPlan returns the plan for skills, in one request. Servers that know no requirements
// plan nothing.
func askPlan(ctx context.Context, s *server.Session, skills []plannedVersion) (plan installPlan, err error) {
	if len(skills) == 0 {
		return plan, nil
	}
	err = s.Call(ctx, http.MethodPost, "/api/v1/registry/requirements", map[string]any{"skills": skills}, &plan)
	if status := client.Status(err); status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		return installPlan{}, nil
	}
	return plan, err
}

// An alongStatus is what became of a skill that others require.
type alongStatus string

// The statuses.
const (
	alongInstalled alongStatus = "installed"
	alongKept      alongStatus = "kept"   // it was there; see Note
	alongFailed    alongStatus = "failed" // see Note
	// alongWouldInstall is that of a dry run.
	alongWouldInstall alongStatus = "would_install"
)

// An alongOutcome is what became of a skill of a plan.
type alongOutcome struct {
	Name         string      `json:"name"`
	Organisation string      `json:"organisation"`
	Version      string      `json:"version"`
	RequiredBy   []string    `json:"required_by"`
	Status       alongStatus `json:"status"`
	Note         string      `json:"note,omitempty"`
}

// decide says what is to be done about each skill of a plan in a folder with these
// records: an outcome without a status is to be installed.
func (p installPlan) decide(folder map[string]install.Record, address string) []alongOutcome {
	all := make([]alongOutcome, len(p.Skills))
	taken := map[string]bool{}
	for i, n := range p.Skills {
		o := alongOutcome{Name: n.Name, Organisation: n.Organisation, Version: n.Version, RequiredBy: n.RequiredBy}
		there, known := folder[n.Name]
		switch {
		case install.CheckName(n.Name) != nil:
			o.Status, o.Note = alongFailed, "its name cannot be that of a folder"
		case taken[n.Name], known && (there.EntryID != n.EntryID || there.Server != address):
			o.Status, o.Note = alongKept, "another skill has this name"
		case known && there.ContentHash == n.ContentHash:
			o.Status, o.Version = alongKept, there.Version
		case known && there.Pinned:
			o.Status, o.Version, o.Note = alongKept, there.Version, "pinned to "+there.Version
		}
		taken[n.Name] = true
		all[i] = o
	}
	return all
}

// mark writes to the lock file, whose records before the installation are given, which
// skills are required by which. All says that the
// plan is for all skills of the folder, so that other marks are outdated. It returns the
// skills that were installed for others, and are not required any more.
func (p installPlan) mark(
	folder *installer, before map[string]install.Record, address string, all bool,
) (unneeded []string, err error) {
	by := map[string][]string{} // names, by entry
	for _, n := range p.Skills {
		by[n.EntryID] = append(by[n.EntryID], n.RequiredBy...)
	}
	for _, r := range p.Required {
		by[r.EntryID] = append(by[r.EntryID], r.RequiredBy)
	}
	for name, r := range folder.skills() {
		if r.Server != address {
			continue
		}
		marks := slices.Clone(by[r.EntryID])
		if !all {
			marks = append(marks, r.RequiredBy...)
		}
		slices.Sort(marks)
		marks = slices.Compact(marks)
		if slices.Equal(marks, r.RequiredBy) {
			continue
		}
		if was, there := before[name]; there && len(was.RequiredBy) == 0 {
			r.Explicit = true // it was there before others came to require it
		}
		if len(marks) == 0 && !r.Explicit {
			unneeded = append(unneeded, name)
		}
		if len(marks) == 0 {
			r.Explicit = false // as of every skill that nothing requires
		}
		r.RequiredBy = marks
		if err := folder.put(name, r); err != nil {
			return unneeded, err
		}
	}
	slices.Sort(unneeded)
	return unneeded, nil
}

// noteWarnings prints warnings of the server.
func noteWarnings(p *term.Program, warnings []string) {
	for _, w := range warnings {
		p.Note("warning: %s", term.Plain(w))
	}
}

// writeAlong says what became of the skills that were installed along with one of an
// organisation.
func writeAlong(w io.Writer, organisation string, all []alongOutcome) {
	for _, o := range all {
		org := o.Organisation
		if org == organisation {
			org = ""
		}
		name := term.Plain(requires.Label(org, o.Name) + " " + o.Version)
		by := term.Plain(listNames(o.RequiredBy))
		switch o.Status {
		case alongInstalled:
			fmt.Fprintf(w, "Installed %s, required by %s\n", name, by)
		case alongWouldInstall:
			fmt.Fprintf(w, "Would install %s, required by %s\n", name, by)
		case alongFailed:
			fmt.Fprintf(w, "%s, required by %s, is not installed: %s\n", name, by, term.Plain(o.Note))
		case alongKept:
			if o.Note != "" {
				fmt.Fprintf(w, "%s, required by %s, is left as it is: %s\n", name, by, term.Plain(o.Note))
			}
		}
	}
}
