package skillpkg_test

import (
	"testing"
	"testing/fstest"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

func TestIgnorePatterns(t *testing.T) {
	for _, c := range []struct {
		patterns string
		path     string
		leftOut  bool
	}{
		{"*.log", "a.log", true},
		{"*.log", "d/e/a.log", true},
		{"/*.log", "d/a.log", false},
		{"/*.log", "a.log", true},
		{"d/*.log", "d/a.log", true},
		{"d/*.log", "x/d/a.log", false},
		{"d/*.log", "d/e/a.log", false},
		{"**/d/*.log", "x/y/d/a.log", true},
		{"**/d/*.log", "d/a.log", true},
		{"d/**/a.log", "d/a.log", true},
		{"d/**/a.log", "d/x/y/a.log", true},
		{"d/**", "d/x/y", true},
		{"d/**\n!d/keep", "d/keep", false},
		{"d/**\n!d/keep", "d/lose", true},
		{"**/**/**/a", "x/a", true},
		{"d/", "d/x", true},
		{"d/", "x/d/y", true},
		{"d/", "e/d", false},
		{"d", "e/d", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"[ab].md", "b.md", true},
		{"[!ab].md", "b.md", false},
		{"[!ab].md", "c.md", true},
		{"*.log\n!keep.log", "keep.log", false},
		{"!keep.log\n*.log", "keep.log", true},
		{"# *.log", "a.log", false},
		{`\#a`, "#a", true},
		{`\!a`, "!a", true},
		{"a.log  \r", "a.log", true},
		{"!.env", ".env", false},
		{"", ".env.production", true},
		{"", "environment", false},
	} {
		t.Run(c.patterns+" "+c.path, func(t *testing.T) {
			fsys := fstest.MapFS{".skillignore": {Data: []byte(c.patterns + "\n")}, c.path: {}}
			_, packed := pack(t, fsys, skillpkg.Zip)
			found := false
			for _, f := range packed.Files {
				found = found || f.Path == c.path
			}
			if found == c.leftOut {
				t.Errorf("got left out %v, want %v (%v)", !found, c.leftOut, packed.LeftOut)
			}
		})
	}
}
