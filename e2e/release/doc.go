// Package release tests what users get: the installer, and, where `make release-check`
// or `make image-check` have built them, the archives, the Debian package and the
// container image.
package release
