package publication_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"

	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

// FuzzVersion checks that a tag's version has no slash and is a fixed point of
// Release, and that ByVersion is a total order that agrees with SemVer.
func FuzzVersion(f *testing.F) {
	for _, seed := range [][3]string{
		{"v1.2.3", "name/v1.2.3", "name@1.2.3"}, {"1.0.0-rc.1", "v1.0.0", "latest"}, {"vv1.0.0", "v1", "a/b@c/d"}, {"v", "@", "/"}, {"01.0.0", "1.0.0+b", "1.0.0+a"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, tag := range []string{a, b, c} {
			version := publication.Release(tag)
			stable := publication.Release(version) == version || strings.HasPrefix(version, "v") || strings.Contains(version, "@")
			if strings.Contains(version, "/") || !stable {
				t.Errorf("the tag %q gives %q, and that %q", tag, version, publication.Release(version))
			}
		}
		order := publication.TagsByVersion([]string{a, b, c})
		if other := publication.TagsByVersion([]string{c, a, b}); !slices.Equal(order, other) {
			t.Errorf("in one order %q, in another %q", order, other)
		}
		var last *semver.Version
		for _, tag := range order {
			v, err := semver.StrictNewVersion(publication.Release(tag))
			if err == nil && last != nil && v.LessThan(last) {
				t.Errorf("%s comes after %s", v, last)
			}
			if err == nil {
				last = v
			}
		}
	})
}
