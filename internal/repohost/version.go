package repohost

import (
	"cmp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// prerelease is the version that a commit on the branch becomes.
func prerelease(commit string) string { return "0.0.0-repohost." + commit[:min(7, len(commit))] }

// release is the version that a tag becomes: v1.2.3, name/v1.2.3 and
// name@1.2.3 give 1.2.3, a tag of another form is the version itself. A slash
// has no place in a version.
func release(tag string) string {
	last := tag[strings.LastIndex(tag, "/")+1:]
	for _, candidate := range []string{tag, last, last[strings.LastIndex(last, "@")+1:]} {
		if version := strings.TrimPrefix(candidate, "v"); isSemVer(version) {
			return version
		}
	}
	return strings.ReplaceAll(tag, "/", "-")
}

func isSemVer(version string) bool {
	_, err := semver.StrictNewVersion(version)
	return err == nil
}

func (r ref) version(commit string) string {
	if r.kind == tag {
		return release(r.name)
	}
	return prerelease(commit)
}

// byVersion sorts tags so that the latest release comes last.
func byVersion(tags []string) []string {
	slices.SortFunc(tags, func(a, b string) int {
		first, err1 := semver.StrictNewVersion(release(a))
		second, err2 := semver.StrictNewVersion(release(b))
		switch {
		case err1 == nil && err2 == nil:
			return cmp.Or(first.Compare(second), strings.Compare(a, b))
		case err1 == nil:
			return 1
		case err2 == nil:
			return -1
		}
		return strings.Compare(a, b)
	})
	return tags
}
