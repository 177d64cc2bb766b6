//go:build !linux

package builder

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// Run needs the namespaces of Linux.
func (b *Builder) Run(context.Context, Build, Receiver) error { return errLinuxOnly() }

// Version needs the namespaces of Linux.
func (b *Builder) Version(context.Context) (string, error) { return "", errLinuxOnly() }

func errLinuxOnly() error {
	return fault.New(fault.Unavailable, "images can be built on Linux only")
}
