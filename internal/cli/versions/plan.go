package versions

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// askPlan returns the plan for skills, in one request. A server that does not have this
// route yet plans nothing, which is not an error.
func askPlan(ctx context.Context, s *server.Session, skills []api.PlannedSkill) (plan api.InstallPlan, err error) {
	if len(skills) == 0 {
		return plan, nil
	}
	err = s.Call(ctx, http.MethodPost, "/api/v1/registry/requirements", map[string]any{"skills": skills}, &plan)
	if status := client.Status(err); status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		return api.InstallPlan{}, nil
	}
	return plan, err
}

// An alongStatus is what became of a skill that others require.
type alongStatus string

// The statuses of outcomes. The zero value means that the skill is still to be
// installed.
const (
	alongInstalled alongStatus = "installed"
	alongKept      alongStatus = "kept"   // left as it was; see Note
	alongFailed    alongStatus = "failed" // see Note
	// alongWouldInstall is reported by a dry run.
	alongWouldInstall alongStatus = "would_install"
)

// An alongOutcome is what became of a skill of a plan, as --json prints it.
type alongOutcome struct {
	Name         string      `json:"name"`
	Organisation string      `json:"organisation"`
	Version      string      `json:"version"`
	RequiredBy   []string    `json:"required_by"`
	Status       alongStatus `json:"status"`
	Note         string      `json:"note,omitempty"`
}

// decideAlong returns an outcome for each skill of the plan, given the records of the
// folder. One without a status is to be installed. A name that another skill has
// already is never replaced: it would overwrite that skill's folder.
func decideAlong(p api.InstallPlan, folder map[string]install.Record, address string) []alongOutcome {
	all := make([]alongOutcome, len(p.Skills))
	taken := map[string]bool{}
	for i, n := range p.Skills {
		o := alongOutcome{Name: n.Name, Organisation: n.Organisation, Version: n.Version, RequiredBy: n.RequiredBy}
		there, known := folder[n.Name]
		switch {
		// The name comes from the server and becomes a path.
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

// markRequired writes to the lock file which skills are required by which; before are its
// records before the installation. all reports that the plan is for all skills of the
// folder, so that marks that it does not confirm are outdated. It returns the skills
// that were installed for others and are no longer required.
func markRequired(
	p api.InstallPlan, folder *installer, before map[string]install.Record, address string, all bool,
) (unneeded []string, err error) {
	by := map[string][]string{} // names of the requiring skills, by entry
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
		// It was there before others came to require it, so it was installed by name.
		if was, there := before[name]; there && len(was.RequiredBy) == 0 {
			r.Explicit = true
		}
		if len(marks) == 0 && !r.Explicit {
			unneeded = append(unneeded, name)
		}
		// Explicit only distinguishes skills that others require.
		if len(marks) == 0 {
			r.Explicit = false
		}
		r.RequiredBy = marks
		if err := folder.put(name, r); err != nil {
			return unneeded, err
		}
	}
	slices.Sort(unneeded)
	return unneeded, nil
}

// noteWarnings prints the warnings of the server as notes.
func noteWarnings(p *term.Program, warnings []string) {
	for _, w := range warnings {
		p.Note("warning: %s", term.Plain(w))
	}
}

// writeAlong prints what became of the skills that were installed along with a skill of
// organisation, whose name is left out. Skills that needed no change are not mentioned.
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
