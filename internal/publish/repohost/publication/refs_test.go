package publication_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
)

func TestVersions(t *testing.T) {
	for tag, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "v1.2": "v1.2", "release": "release", "vnext": "vnext",
		"deploy/v1.2.3": "1.2.3", "deploy/1.2.3": "1.2.3", "deploy@1.2.3": "1.2.3", "@acme/deploy@1.2.3": "1.2.3", "a/b/v2.0.0": "2.0.0",
		"deploy/next": "deploy-next", "v01.2.3": "v01.2.3",
	} {
		if got := publication.Release(tag); got != want {
			t.Errorf("%s: got %s, want %s", tag, got, want)
		}
	}
	for commit, want := range map[string]string{
		"1a2b3c4d5e": "1a2b3c4", "1234567890": "1234567", "0123456789abcdef": "0123456789a", "012345678b": "012345678b",
		"0e12345678": "0e12345", "1a2b3c4": "1a2b3c4", "1a2": "1a2",
	} {
		if got := publication.Prerelease(commit); got != "0.0.0-repohost."+want {
			t.Errorf("%s: got %s, want the short SHA %s", commit, got, want)
		}
	}
	got := publication.TagsByVersion([]string{"v10.0.0", "v2.0.0", "next", "v2.0.0-rc.1", "latest"})
	if diff := cmp.Diff([]string{"latest", "next", "v2.0.0-rc.1", "v2.0.0", "v10.0.0"}, got); diff != "" {
		t.Errorf("order (- want, + got):\n%s", diff)
	}
}
