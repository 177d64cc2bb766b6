package cli

import (
	"context"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// RunHook runs the command of a repository's hook.
func RunHook(ctx context.Context, p *term.Program, configPath string) error {
	return (&repohostHook{Config: configPath}).Run(ctx, p)
}

// RunInitRepo runs the command that creates a repository.
func RunInitRepo(ctx context.Context, p *term.Program, data, fullName string) error {
	return (&repohostInitRepo{Database: config.Database{Data: data}, FullName: fullName}).Run(ctx, p)
}

// Only leaves out all commands but the one that is run.
var Only = only

// NewParser returns the parser of the command line.
func NewParser(options ...kong.Option) (*kong.Kong, error) { return newParser(&commands{}, options...) }

// AllExamples returns the examples of all commands.
func AllExamples() []string {
	var all []string
	for line := range strings.Lines(examples) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
