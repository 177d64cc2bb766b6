package attempt

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
)

// WriteDistractors writes skills that compete with the one under test into folders
// below dir, and returns the folders by name. They have names and descriptions, by
// which agents choose, and no content.
func WriteDistractors(dir string, all []judge.Skill) (map[string]string, error) {
	folders := map[string]string{}
	for i, d := range all {
		folder := filepath.Join(dir, fmt.Sprintf("distractor-%d", i))
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, err
		}
		name := SkillName("", d.Name)
		content := fmt.Sprintf("---\nname: %s\ndescription: %q\n---\nThis skill is not available here.\n",
			name, text.PlainLine(d.Description))
		err := os.WriteFile(filepath.Join(folder, "SKILL.md"), []byte(content), 0o644) // the sandbox's user reads it
		if err != nil {
			return nil, err
		}
		folders[name] = folder
	}
	return folders, nil
}
