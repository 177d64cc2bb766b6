//go:build linux && !amd64 && !arm64

package seccomp

// Filter returns nothing: there is no filter for this architecture.
func Filter() []byte { return nil }

// BuildFilter returns nothing: there is no filter for this architecture.
func BuildFilter() []byte { return nil }
