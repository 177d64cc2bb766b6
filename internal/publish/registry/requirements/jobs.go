package requirements

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// Register registers the backfill, and starts it with the server: it returns at once when
// there is nothing left.
func (s *Service) Register() {
	jobs.Handle(s.Jobs, func(ctx context.Context, _ backfill) error { return s.Backfill(ctx) }, jobs.Timeout(time.Hour))
	s.Jobs.Every(24*time.Hour, backfill{}, jobs.RunOnStart())
}

// backfill reads the requirements of versions from before migration 71.
type backfill struct{}

// Kind names the job.
func (backfill) Kind() string { return "requirements.backfill" }

// backfillChunk is how many versions a transaction of the backfill handles. Each has up
// to 64 KiB of text.
const backfillChunk = 100

// Backfill walks through all versions in chunks. It's resumable:
// registry_requirement_backfill holds the cursor, and is emptied at the end.
func (s *Service) Backfill(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "backfill")
	for {
		versions, err := nextLacking(ctx, s.DB, backfillChunk)
		if err != nil {
			return err
		}
		if len(versions) == 0 {
			return setDone(ctx, s.DB)
		}
		all := make([][]requires.Requirement, len(versions))
		for i, v := range versions {
			if all[i], err = s.read(ctx, v); err != nil {
				return err
			}
		}
		err = s.DB.InTx(ctx, func(tx *store.Tx) error {
			for i, v := range versions {
				if err := Insert(ctx, tx, v.OrgID, v.EntryID, v.VersionID, all[i]); err != nil {
					return err
				}
			}
			return setSeen(ctx, tx, versions[len(versions)-1].VersionID)
		})
		if err != nil {
			return err
		}
	}
}

// read returns the requirements of a version. A version that was deleted in between, or
// whose archive can't be read, has none: one broken archive must not block the backfill.
func (s *Service) read(ctx context.Context, l Lacking) ([]requires.Requirement, error) {
	if l.SkillMD != nil {
		return parse(skillpkg.ParseSkill(l.SkillMD))
	}
	pkg, err := s.Archives.OpenByID(ctx, l.OrgID, l.EntryID, l.VersionID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		s.Log.Warn("the requirements of a version are unknown: its archive cannot be read", "version", l.VersionID, "error", err)
		return nil, ctx.Err()
	}
	defer pkg.Close()
	return parse(pkg.Skill())
}

// parse ignores a SKILL.md that doesn't parse; lint reports it.
func parse(skill skillpkg.Skill, err error) ([]requires.Requirement, error) {
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	all, _ := Of(skill)
	return all, nil
}
