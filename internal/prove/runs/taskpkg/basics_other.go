//go:build !linux

package taskpkg

// isOpaque is about overlays, which only Linux has.
func isOpaque(string) bool { return false }
