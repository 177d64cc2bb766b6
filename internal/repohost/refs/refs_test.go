package refs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/repohost/refs"
)

func TestVersions(t *testing.T) {
	for tag, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "v1.2": "v1.2", "release": "release", "vnext": "vnext",
		"deploy/v1.2.3": "1.2.3", "deploy/1.2.3": "1.2.3", "deploy@1.2.3": "1.2.3", "@acme/deploy@1.2.3": "1.2.3", "a/b/v2.0.0": "2.0.0",
		"deploy/next": "deploy-next", "v01.2.3": "v01.2.3",
	} {
		if got := refs.Release(tag); got != want {
			t.Errorf("%s: got %s, want %s", tag, got, want)
		}
	}
	if got := refs.Prerelease("0123456789abcdef"); got != "0.0.0-repohost.0123456" {
		t.Errorf("got %s", got)
	}
	got := refs.ByVersion([]string{"v10.0.0", "v2.0.0", "next", "v2.0.0-rc.1", "latest"})
	if diff := cmp.Diff([]string{"latest", "next", "v2.0.0-rc.1", "v2.0.0", "v10.0.0"}, got); diff != "" {
		t.Errorf("order (- want, + got):\n%s", diff)
	}
}
