package requirements

import (
	"context"
	"log/slog"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Service answers what a skill requires, and which skills require it.
type Service struct {
	DB   *store.DB
	Jobs *jobs.Queue
	// Archives reads the archives of versions.
	Archives Archives
	Log      *slog.Logger
}

// Archives opens the archive of a version; the caller closes it. A deleted version is
// fault.NotFound.
type Archives interface {
	OpenByID(ctx context.Context, orgID, entryID, versionID string) (*skillpkg.Package, error)
}

// A View is one version with its requirements and its dependents.
type View struct {
	Skill
	Graph
	Dependents []Dependent
	More       bool // there are more dependents than MaxDependents
}

// View returns the requirements of a version of an entry, and the skills that require the
// entry, both limited to what the organisation may see. An empty version is the current
// one; an entry without one is fault.NotFound.
func (s *Service) View(ctx context.Context, orgID, entryID, version string) (v View, err error) {
	defer fault.Wrap(&err, "requirements of entry %s", entryID)
	if v.Skill, err = versionOf(ctx, s.DB, orgID, entryID, version); err != nil {
		return v, err
	}
	if v.Graph, err = GraphOf(ctx, s.DB, orgID, []Skill{v.Skill}); err != nil {
		return v, err
	}
	v.Dependents, v.More, err = s.dependents(ctx, orgID, v.Skill)
	return v, err
}

// dependents also computes whether the version satisfies each of them.
func (s *Service) dependents(ctx context.Context, orgID string, of Skill) (all []Dependent, more bool, err error) {
	all, err = dependentsOf(ctx, s.DB, orgID, of, MaxDependents+1)
	if more = len(all) > MaxDependents; more {
		all = all[:MaxDependents]
	}
	for i, d := range all {
		all[i].State = Unmet
		if allows(d.Range, of.Version) {
			all[i].State = Met
		}
	}
	return all, more, err
}

// Direct returns the version's own requirements.
func (v View) Direct() []Found { return v.Requires[v.VersionID] }

// Plan returns what has to be installed along with the given versions: pairs of entry id
// and version name. Versions that the organisation may not see are ignored.
func (s *Service) Plan(ctx context.Context, orgID string, versions [][2]string) (g Graph, err error) {
	defer fault.Wrap(&err, "plan of %d versions", len(versions))
	roots, err := versionsNamed(ctx, s.DB, orgID, versions)
	if err != nil {
		return g, err
	}
	return GraphOf(ctx, s.DB, orgID, roots)
}
