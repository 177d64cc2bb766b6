package clawhub

import "github.com/Masterminds/semver/v3"

// maxNumber is the largest number in a version that JavaScript represents exactly;
// clients refuse a larger one.
const maxNumber = 1<<53 - 1

// isSemVer reports whether clients can compare a version: their update fails on a
// latest version that is none, e.g. "0.0.0-repohost.0123456" with its leading zero.
func isSemVer(version string) bool {
	v, err := semver.StrictNewVersion(version)
	return err == nil && v.Major() <= maxNumber && v.Minor() <= maxNumber && v.Patch() <= maxNumber
}
