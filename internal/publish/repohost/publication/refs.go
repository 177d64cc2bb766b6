package publication

// A ref is a branch or a tag. A pattern selects tags, and each ref is published as a
// version.

import (
	"cmp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/glob"
)

// A Ref is a branch or tag.
type Ref struct {
	Kind Kind
	Name string
}

// A Kind tells branches from tags.
type Kind string

// The kinds.
const (
	Branch Kind = "branch"
	Tag    Kind = "tag"
)

// MaxName is the longest name of a ref, in bytes: file systems, and with them git, don't
// allow longer ones.
const MaxName = 255

// Full is the full name, e.g. "refs/tags/v1.2.3".
func (r Ref) Full() string {
	if r.Kind == Tag {
		return "refs/tags/" + r.Name
	}
	return "refs/heads/" + r.Name
}

// Version is the version that the ref at a commit is published as.
func (r Ref) Version(commit string) string {
	if r.Kind == Tag {
		return Release(r.Name)
	}
	return Prerelease(commit)
}

// minShortSHA is the length at which git abbreviates SHAs.
const minShortSHA = 7

// Prerelease is the version of a commit on a branch, e.g. "0.0.0-repohost.1a2b3c4".
// SemVer forbids numbers with a leading zero, so where 7 characters are such a number (1
// commit in 268), more are used.
func Prerelease(commit string) string {
	for length := minShortSHA; length < len(commit); length++ {
		version := "0.0.0-repohost." + commit[:length]
		if _, err := semver.StrictNewVersion(version); err == nil {
			return version
		}
	}
	return "0.0.0-repohost." + commit
}

// Release is the version of a tag: "1.2.3" for "v1.2.3", "name/v1.2.3" and "name@1.2.3".
// Any other tag is the version as it is, with slashes replaced, which versions can't
// contain.
func Release(tag string) string {
	last := tag[strings.LastIndex(tag, "/")+1:]
	for _, candidate := range []string{tag, last, last[strings.LastIndex(last, "@")+1:]} {
		version := strings.TrimPrefix(candidate, "v")
		if _, err := semver.StrictNewVersion(version); err == nil {
			return version
		}
	}
	return strings.ReplaceAll(tag, "/", "-")
}

// TagsByVersion sorts tags by SemVer, the latest release last. Tags that aren't SemVer come
// first.
func TagsByVersion(tags []string) []string {
	slices.SortFunc(tags, func(a, b string) int {
		first, err1 := semver.StrictNewVersion(Release(a))
		second, err2 := semver.StrictNewVersion(Release(b))
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

// ValidBranch applies git's rules for branch names (git check-ref-format).
func ValidBranch(name string) bool {
	bad := name == "" || len(name) > MaxName || strings.ContainsAny(name, " ~^:?*[\\\x7f") ||
		strings.Contains(name, "..") || strings.Contains(name, "//") || strings.Contains(name, "@{") ||
		strings.HasPrefix(name, "/") || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "refs/") ||
		strings.HasSuffix(name, "/") || strings.HasSuffix(name, ".lock")
	return !bad && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' })
}

// maxPattern is the longest tag pattern, in bytes.
const maxPattern = 200

// Tags is a set of tags given by a glob like "v*" or "{a,b}/v*". * doesn't match a slash,
// ** does.
type Tags glob.Set

// ParseTags compiles a pattern; an invalid one is fault.Malformed.
func ParseTags(pattern string) (Tags, error) {
	set, err := glob.ParseSet(pattern)
	if err != nil || len(pattern) > maxPattern || strings.ContainsRune(pattern, 0) {
		return nil, fault.New(fault.Malformed,
			"tag_pattern must be a glob like v*, my-skill/v* or {a,b}/v* of at most %d characters,"+

				" whose braces stand for at most %d patterns", maxPattern, glob.MaxAlternatives).Because(err)
	}
	return Tags(set), nil
}

// Match reports whether the tag is in the set.
func (t Tags) Match(tag string) bool { return len(tag) <= MaxName && glob.Set(t).Match(tag) }

// Select returns the matching tags, sorted by version. The map has a repository's tags
// with their commits.
func (t Tags) Select(tags map[string]string) []string {
	var names []string
	for name := range tags {
		if t.Match(name) {
			names = append(names, name)
		}
	}
	return TagsByVersion(names)
}
