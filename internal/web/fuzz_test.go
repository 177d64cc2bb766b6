package web_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/web"
)

// FuzzLocalPath: wherever a sign-in is asked to lead, it stays on this site,
// as browsers understand it.
func FuzzLocalPath(f *testing.F) {
	for _, seed := range []string{"/", "/skills?q=a#b", "//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "javascript:alert(1)", "", "/%2f%2fevil.example", "/../..//evil.example"} {
		f.Add(seed)
	}
	base, err := url.Parse("https://w.example/login")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, next string) {
		path := web.LocalPath(next)
		// Browsers drop some characters, and take a backslash for a slash.
		seen := strings.NewReplacer("\t", "", "\r", "", "\n", "", `\`, "/").Replace(path)
		if strings.HasPrefix(seen, "//") || !strings.HasPrefix(seen, "/") {
			t.Fatalf("%q leads to %q", next, path)
		}
		if to, err := base.Parse(seen); err != nil || to.Host != base.Host || to.Scheme != base.Scheme {
			t.Errorf("%q leads to %v, %v", next, to, err)
		}
	})
}
