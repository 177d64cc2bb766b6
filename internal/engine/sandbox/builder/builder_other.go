//go:build !linux

package builder

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// Run needs the namespaces of Linux.
func (b *Builder) Run(context.Context, Build, Receiver) error { return errLinuxOnly() }

// Version needs the namespaces of Linux.
func (b *Builder) Version(context.Context) (string, error) { return "", errLinuxOnly() }

// Users are those that the image of a build may have.
type Users int

// Users needs the namespaces of Linux.
func (b *Builder) Users(context.Context) (Users, error) { return 0, errLinuxOnly() }

// Remove removes the folder of a build.
func (b *Builder) Remove(dir string) error { return sandbox.Remove(dir) }

func errLinuxOnly() error {
	return fault.New(fault.Unavailable, "images can be built on Linux only")
}
