package versions

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// installAlong installs the skills of a plan, and records in the lock file which skill
// requires which. A failure of one skill does not affect the others: its outcome has
// the reason. See installPlan.mark for all.
func installAlong(ctx context.Context, i *installer, plan api.InstallPlan, all bool) ([]alongOutcome, error) {
	noteWarnings(i.Program, plan.Warnings)
	before := i.skills()
	// The records as they were before, so that decide and mark see what was already
	// there.
	outcomes := decideAlong(plan, before, i.Server)
	for n := range outcomes {
		o, needed := &outcomes[n], plan.Skills[n]
		// The plan has decided already, e.g. that the skill is up to date.
		if o.Status != "" {
			continue
		}
		t := installTarget{
			Name: needed.Name, Organisation: needed.Organisation, EntryID: needed.EntryID, Version: needed.Version,
			Hash: needed.ContentHash,
		}
		// No bar: required skills are few, and the sync has shown its own.
		archive, err := i.fetch(ctx, t, func(int64, int64) {})
		if err == nil {
			// Never by force: the person asked for another skill.
			_, err = i.unpack(ctx, t, archive, false)
		}
		o.Status = alongInstalled
		if edited, ok := errors.AsType[*install.EditedError](err); ok {
			o.Status, o.Note = alongKept, edited.Error()
		} else if err != nil {
			o.Status, o.Note = alongFailed, term.Message(server.AsFault(err, i.Server))
		} else {
			i.record(ctx, t)
		}
	}
	unneeded, err := markRequired(plan, i, before, i.Server, all)
	for _, name := range unneeded {
		i.Program.Note("%s was installed for other skills, and no skill here requires it any more", term.Plain(name))
	}
	return outcomes, err
}

// along installs what a skill requires, after the skill itself was installed by name.
// It marks the skill as explicit if others require it, too, so that it is not reported
// as unneeded once they are gone.
func (c *installCommand) along(ctx context.Context, i *installer, t installTarget) ([]alongOutcome, error) {
	// It was recorded a moment ago, when the skill itself was installed.
	r := i.skills()[t.Name]
	r.Explicit, r.NoRequires = len(r.RequiredBy) > 0, c.NoRequires
	if err := i.put(t.Name, r); err != nil || c.NoRequires {
		return nil, err
	}
	plan, err := askPlan(ctx, i.Session, []api.PlannedSkill{{EntryID: t.EntryID, Version: t.Version}})
	if err != nil {
		return nil, err
	}
	return installAlong(ctx, i, plan, false)
}

// planOf asks the server what skills of a folder require, all of them or the named
// ones. Skills from other servers and those installed with --no-requires are left out.
func planOf(ctx context.Context, s *server.Session, skills map[string]install.Record, names []string) (api.InstallPlan, error) {
	var versions []api.PlannedSkill
	// The server sorts the plan, so the order of the map does not matter.
	for name, r := range skills {
		if r.Server == s.Server && !r.NoRequires && (len(names) == 0 || slices.Contains(names, name)) {
			versions = append(versions, api.PlannedSkill{EntryID: r.EntryID, Version: r.Version})
		}
	}
	return askPlan(ctx, s, versions)
}

// wouldAlong adds to the output of a dry run what would be installed along. It plans
// with the versions that the sync would install, not with the present ones.
func (c *syncCommand) wouldAlong(
	ctx context.Context, s *server.Session, skills map[string]install.Record, out []syncOutput,
) ([]syncOutput, error) {
	if c.NoRequires {
		return out, nil
	}
	after := maps.Clone(skills)
	for _, o := range out {
		r := after[o.Name]
		r.Version = o.Version
		// The plan is about what will be installed then, under the new versions.
		after[o.Name] = r
	}
	plan, err := planOf(ctx, s, after, c.Names)
	for _, o := range decideAlong(plan, after, s.Server) {
		if o.Status == "" {
			o.Status = alongWouldInstall
		}
		out = append(out, alongOutput(o))
	}
	return out, err
}

// along adds to the output of a sync the skills that it installs because updated skills
// came to require them.
func (c *syncCommand) along(ctx context.Context, i *installer, out []syncOutput) ([]syncOutput, error) {
	if c.NoRequires {
		return out, nil
	}
	plan, err := planOf(ctx, i.Session, i.skills(), c.Names)
	if err != nil {
		return out, err
	}
	outcomes, err := installAlong(ctx, i, plan, len(c.Names) == 0)
	for _, o := range outcomes {
		out = append(out, alongOutput(o))
	}
	return out, err
}

// alongOutput converts an outcome to a line of a sync's output.
func alongOutput(o alongOutcome) syncOutput {
	s := syncOutput{
		Name: o.Name, Version: o.Version, LatestVersion: o.Version, Edits: []install.Edit{}, Status: drift(o.Status),
		RequiredBy: o.RequiredBy,
	}
	if o.Status == alongFailed || o.Status == alongKept {
		s.Error = o.Note
	}
	return s
}
