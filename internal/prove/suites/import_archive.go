package suites

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/environments"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/harbor"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/plugineval"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// importArchive reads an archive of Harbor task folders, or of cases of
// `claude plugin eval`.
func (s *Service) importArchive(ctx context.Context, orgID string, f Import) (d draft, err error) {
	// Checked before anything is stored.
	if err := s.Quota.Room(ctx, orgID, f.Size); err != nil {
		return d, err // no room, so nothing is stored
	}
	limits := skillpkg.DefaultLimits()
	limits.Depth, limits.PathLength = 20, 512 // as when a trial unpacks it
	limits.Files = 10 * maxCases
	p, err := skillpkg.Open(ctx, f.Content, f.Size, limits)
	if err != nil {
		return d, err
	}
	defer p.Close()
	// An archive with a task.toml is one of Harbor tasks, whatever else is in it.
	if len(harbor.Find(p, "")) == 0 && plugineval.HasCases(p) {
		return importPluginCases(p, f)
	}
	return s.importTasks(ctx, orgID, p, f)
}

// importTasks reads Harbor task folders: each folder with a task.toml is one.
func (s *Service) importTasks(ctx context.Context, orgID string, p *skillpkg.Package, f Import) (d draft, err error) {
	d = draft{NewSuite: NewSuite{SourceKind: Imported, VerifierKind: Deterministic, SupportsNoSkill: new(true)}}
	tasks := harbor.Find(p, baseName(f.Filename))
	if len(tasks) < 1 || len(tasks) > maxCases {
		return d, fault.Invalid("file", "the archive must have 1 to %d folders with a task.toml, not %d", maxCases, len(tasks))
	}
	stored := int64(0)
	service := harbor.Service{
		Missing: func(ctx context.Context, r environments.Recipe) string {
			if s.Environments == nil {
				return "images are not built here"
			}
			return s.Environments.Missing(ctx, r)
		},
		// The quota is enforced when the suite is created. What is refused then would
		// stay in the bucket until the sweep.
		Store: func(ctx context.Context, archive []byte) (string, error) {
			stored += int64(len(archive))
			if err := s.Quota.Room(ctx, orgID, stored); err != nil {
				return "", err
			}
			return s.putEnvironment(ctx, orgID, archive)
		},
	}
	for _, t := range tasks {
		fields, err := t.Case(ctx, service, f.Oracle)
		if err != nil {
			return d, err
		}
		if len(t.Reasons) > 0 {
			d.refused = append(d.refused, Refusal{Task: t.Name, Reasons: t.Reasons})
			continue
		}
		d.Cases = append(d.Cases, fields)
		for _, w := range t.Warnings {
			d.warnings = append(d.warnings, t.Name+": "+w)
		}
	}
	if len(tasks) == 1 {
		d.Name = tasks[0].Name
	}
	if len(d.Cases) > 0 {
		return d, nil
	}
	return d, d.refusal()
}

// importPluginCases imports cases of `claude plugin eval`. Unless the caller accepts a
// partial suite, one case that can't be run here refuses them all: a suite that lacks
// cases measures something else than its author meant.
func importPluginCases(p *skillpkg.Package, f Import) (d draft, err error) {
	found, plugin, err := plugineval.Find(p)
	if err != nil {
		return d, err
	}
	if len(found) > maxCases {
		return d, fault.Invalid("file", "the archive must have 1 to %d cases, not %d", maxCases, len(found))
	}
	all := plugineval.Translate(found)
	d = draft{
		NewSuite: NewSuite{Name: plugin, SourceKind: Manual, VerifierKind: Deterministic, SupportsNoSkill: new(true)},
		warnings: all.Warnings,
	}
	if all.Judged {
		d.VerifierKind = LLMJudge
	}
	for _, fields := range all.Cases {
		d.Cases = append(d.Cases, fields)
	}
	for _, r := range all.Refused {
		d.refused = append(d.refused, Refusal{Task: r.Case, Reasons: r.Reasons})
	}
	if len(d.refused) > 0 && (!f.Partial || len(d.Cases) == 0) {
		return d, d.refusal()
	}
	return d, nil
}

// refusal returns an error with all reasons why tasks of the archive were refused.
func (d draft) refusal() error {
	var issues []fault.Issue
	for _, r := range d.refused {
		for _, reason := range r.Reasons {
			issues = append(issues, fault.Issue{Path: []string{"file", r.Task}, Message: r.Task + ": " + reason})
		}
	}
	return fault.Issues(issues...)
}
