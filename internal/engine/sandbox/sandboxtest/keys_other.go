//go:build !linux

package sandboxtest

import "testing"

// PlantKey does nothing: only Linux has keyrings.
func PlantKey(*testing.T, string) {}
