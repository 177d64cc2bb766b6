package versions

import (
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// skillsFlag is the flag --dir: the folder that skills are installed in.
type skillsFlag struct {
	Dir string `env:"-" placeholder:"DIR" help:"Folder of the skills; by default .claude/skills if the current folder has a .claude, else ~/.claude/skills."`
}

// path returns the folder as an absolute path, since it is recorded on the server and
// distinguishes the installations of one entry on one machine. It need not exist.
func (f skillsFlag) path() (string, error) {
	if f.Dir != "" {
		return filepath.Abs(f.Dir)
	}
	if info, err := os.Stat(".claude"); err == nil && info.IsDir() {
		return filepath.Abs(filepath.Join(".claude", "skills"))
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.Invalid("dir", "dir must be given: %s", err)
	}
	return filepath.Join(home, ".claude", "skills"), nil
}
