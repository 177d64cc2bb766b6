package versions

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
)

// newSkill and newCases are the files of a new skill: an example that works, passes the check
// without a note, and shows what belongs where. %s is the name.
const (
	newSkill = `---
name: %s
description: Lists the tasks that were agreed in a meeting. Use when the user asks for the tasks, to-dos or next steps in notes of a meeting.
---

# Tasks of a meeting

1. Read the notes, and find who agreed to do what, and until when.
2. Answer with one line for each task: who, what, and the date if one was named.
3. If no task was agreed, say so. Do not make one up.
`
	newCases = `{
  "skill_name": %q,
  "evals": [
    {
      "id": 1,
      "prompt": "What are the tasks? Notes: Ada sends the offer by Friday. Bob books the room.",
      "expectations": ["Ada sends the offer by Friday", "Bob books the room, without a date"]
    },
    {
      "id": 2,
      "prompt": "What are our next steps? Notes: We looked at the new logo, and everybody likes it.",
      "expectations": ["The answer says that no task was agreed"]
    }
  ]
}
`
)

// An initCommand makes a skill to start from.
type initCommand struct {
	Name string `arg:"" help:"Name of the skill: lowercase letters, digits and single hyphens."`
	Dir  string `env:"-" default:"." help:"Folder in which the folder of the skill is made; the current one when empty."`
}

// initOutput is what was made, as --json prints it.
type initOutput struct {
	Dir   string   `json:"dir"`
	Files []string `json:"files"`
}

// Help is shown below the description of the command.
func (initCommand) Help() string {
	return `Exit codes: 0 done; 1 the folder exists, or cannot be made; 2 the name is not valid.`
}

// Run makes the folder. One that exists is left as it is.
func (c *initCommand) Run(p *term.Program) error {
	if !catalog.ValidName(c.Name) {
		return fault.Invalid("name", "%q cannot be the name of a skill: use 1 to 64 lowercase letters, digits and single hyphens, "+
			"e.g. pdf-tables, and no name of a Windows device", c.Name)
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	dir := filepath.Join(c.Dir, c.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fault.New(fault.Conflict, "%s exists already; nothing was changed", dir)
		}
		return err
	}
	out := initOutput{dir, []string{"SKILL.md", filepath.Join("evals", "evals.json")}}
	if err := os.Mkdir(filepath.Join(dir, "evals"), 0o755); err != nil {
		return err
	}
	for i, text := range []string{newSkill, newCases} {
		if err := os.WriteFile(filepath.Join(dir, out.Files[i]), fmt.Appendf(nil, text, c.Name), 0o644); err != nil {
			return err
		}
	}
	return p.Print(out, func(w io.Writer) {
		fmt.Fprintf(w, "Created %s with an example: edit SKILL.md and evals/evals.json.\nThen run `whetstone check %s` and `whetstone push %s`.\n",
			dir, dir, dir)
	})
}
