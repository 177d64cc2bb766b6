//go:build !linux

package app

import "net"

// newDrainListener changes nothing where the backlog can't be read: a few connections may be
// reset at a restart.
func newDrainListener(l net.Listener) net.Listener { return l }
