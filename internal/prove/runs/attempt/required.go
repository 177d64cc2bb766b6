package attempt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/subject"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// WriteRequired writes the skills that the subject requires below dir, and adds their
// folders to folders by name, replacing distractors of the same name. A required skill
// that is missing from the registry is left out: the run goes on without it.
func WriteRequired(
	ctx context.Context, dir string, find subject.Finder, orgID string, all []subject.Required, folders map[string]string,
) error {
	for i, r := range all {
		if !r.Present() {
			continue
		}
		skill, err := find.Required(ctx, orgID, r)
		if err != nil {
			return err
		}
		content, text, err := skill.Read(ctx)
		if err != nil {
			return err
		}
		folder := filepath.Join(dir, fmt.Sprintf("required-%d", i))
		if err := errors.Join(Unpack(ctx, content, folder), content.Close()); err != nil {
			return err
		}
		delete(folders, SkillName("", r.Name))
		folders[SkillName(text, r.Name)] = folder
	}
	return nil
}

// Unpack writes the files of a skill into a new folder that the sandbox's user may
// read.
func Unpack(ctx context.Context, content *skillpkg.Package, dir string) (err error) {
	defer fault.Wrap(&err, "files of %s", filepath.Base(dir))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(skillpkg.Unpack(ctx, content, root), root.Close())
}
