package glob_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/glob"
)

func TestMatch(t *testing.T) {
	for pattern, names := range map[string]struct{ match, miss string }{
		"v*":              {"v1.0 v", "1.0 a/v1"},
		"my-skill/v*":     {"my-skill/v1", "v1 my-skill/a/v1"},
		"**":              {"a a/b", ""},
		"**/v*":           {"v1 a/v1 a/b/v1", "a/x v1/x"},
		"a/**":            {"a/b a/b/c", "a b/a"},
		"a/**/b/**/c":     {"a/b/c a/x/b/b/y/c a/b/b/c", "a/c a/b/c/d"},
		"{a,b}/v*":        {"a/v1 b/v2", "c/v1 {a,b}/v1"},
		"{v,release-}1.?": {"v1.0 release-1.2", "1.0"},
		"{a,b{c,d}}x":     {"ax bcx bdx", "bx abcx"},
		"v{,-rc}1":        {"v1 v-rc1", "vrc1"},
		"[vV][0-9]":       {"v1 V2", "x1"},
		"[!v]1":           {"x1", "v1"},
		`\{a\}`:           {"{a}", "a"},
		"[{}]":            {"{ }", "a"},
		"a**b":            {"ab axxb", "a/b"},
	} {
		set, err := glob.ParseSet(pattern)
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		for _, name := range strings.Fields(names.match) {
			if !set.Match(name) {
				t.Errorf("%s does not match %s", pattern, name)
			}
		}
		for _, name := range strings.Fields(names.miss) {
			if set.Match(name) {
				t.Errorf("%s matches %s", pattern, name)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, pattern := range []string{
		"", "[", "{a", "a}", "{a,{b}", "a//b", "/a", "a/", `a\`, "[a/b]", strings.Repeat("a", glob.MaxPattern+1),
		strings.Repeat("{,}", 26), strings.Repeat("{a,b}", 7), "{" + strings.Repeat("a,", glob.MaxAlternatives) + "b}",
		strings.Repeat("{", 500) + strings.Repeat("}", 500),
	} {
		if _, err := glob.ParseSet(pattern); err == nil {
			t.Errorf("%.40q is taken", pattern)
		}
	}
	long, err := glob.ParseSet("**")
	if err != nil || long.Match(strings.Repeat("a", glob.MaxName+1)) {
		t.Errorf("a name over the limit matches, %v", err)
	}
}

// TestTime holds the worst patterns to what is linear in pattern and name.
func TestTime(t *testing.T) {
	for _, pattern := range []string{
		strings.Repeat("**/a/", 200) + "b", strings.Repeat("*a", 500) + "b", strings.Repeat("?*", 500) + "b",
		strings.Repeat("{a*,*a}", 6) + "b", strings.Repeat("[a-z]*", 150) + "!",
	} {
		set, err := glob.ParseSet(pattern)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		set.Match(strings.Repeat("a/", glob.MaxName/2))
		set.Match(strings.Repeat("a", glob.MaxName))
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%.20s took %s", pattern, took)
		}
	}
}

// FuzzMatch compares the quick matcher with one that tries everything.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{{"**/a/**", "a/b"}, {"a/**/b", "a/b"}, {"**/**", "a"}, {"*/?/[a-b]", "x/y/a"}, {"{a,b}**", "ab"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 30 || len(name) > 30 {
			return
		}
		p, err := glob.Parse(pattern)
		if err != nil {
			return
		}
		segments := strings.Split(strings.ReplaceAll(pattern, "[!", "[^"), "/")
		if got, want := p.Match(name), slow(segments, strings.Split(name, "/")); got != want {
			t.Errorf("%q and %q: got %t, want %t", pattern, name, got, want)
		}
	})
}

func slow(pattern, name []string) bool {
	if len(pattern) == 0 || len(name) == 0 {
		return len(pattern) == len(name)
	}
	if pattern[0] == "**" {
		return len(pattern) > 1 && slow(pattern[1:], name) || slow(pattern, name[1:]) || len(pattern) == 1
	}
	ok, _ := path.Match(pattern[0], name[0])
	return ok && slow(pattern[1:], name[1:])
}
