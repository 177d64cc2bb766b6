//go:build !linux

package sandbox

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// bubblewrap needs the namespaces of Linux.
type bubblewrap struct{}

func newBubblewrap(Options) *bubblewrap { return &bubblewrap{} }

func (*bubblewrap) Binds() bool { return true }

func (*bubblewrap) Run(context.Context, Spec) (Result, error) { return Result{}, errLinuxOnly() }

func (*bubblewrap) Check(context.Context) (Report, error) { return Report{}, errLinuxOnly() }

func errLinuxOnly() error {
	return fault.New(fault.Unavailable, "the sandbox bubblewrap needs Linux; run a worker there, or set --sandbox docker")
}

// MachineMemory is the memory of the machine in bytes, or 0 if it is unknown.
func MachineMemory() int64 { return 0 }

// ProbeOverlay returns nil if the programs of a sandbox can have a Root with
// Changes in a folder.
func ProbeOverlay(context.Context, string) error { return errLinuxOnly() }
