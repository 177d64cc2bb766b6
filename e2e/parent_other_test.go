//go:build !linux

package e2e_test

import "os/exec"

// dieWithParent does nothing where the system has no such promise.
func dieWithParent(*exec.Cmd) {}
