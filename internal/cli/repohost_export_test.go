package cli

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/config"
)

// RunHook runs the command of a repository's hook.
func (p *Program) RunHook(ctx context.Context, configPath string) error {
	return (&repohostHook{Config: configPath}).Run(ctx, p)
}

// RunInitRepo runs the command that makes a repository.
func (p *Program) RunInitRepo(ctx context.Context, data, fullName string) error {
	return (&repohostInitRepo{Database: config.Database{Data: data}, FullName: fullName}).Run(ctx, p)
}
