package taskpkg

import "golang.org/x/sys/unix"

// isOpaque reports whether a folder of an overlay hides the one below it ("opaque" in
// overlayfs), because that one was removed before.
func isOpaque(dir string) bool {
	value := make([]byte, 1)
	n, err := unix.Lgetxattr(dir, "user.overlay.opaque", value)
	return err == nil && n == 1 && value[0] == 'y'
}
