package lint

import (
	"strings"
	"testing"
)

func TestArgument(t *testing.T) {
	for _, c := range []struct {
		text string
		want argumentKind
	}{
		{`"make all")`, constantArgument},
		{"\n  'make all', options)", constantArgument},
		{"`make all`)", constantArgument},
		{`"make " "all")`, constantArgument},
		{`f"make {{all}}")`, constantArgument},
		{`f"make {target}")`, builtArgument},
		{`"make " f"{target}")`, builtArgument},
		{"`make ${target}`)", builtArgument},
		{`"make " + target)`, builtArgument},
		{`"make %s" % target)`, builtArgument},
		{`"make {}".format(target))`, builtArgument},
		{`prefix + " all")`, builtArgument},
		{`command)`, unknownArgument},
		{`f"{sys.executable} -m pip")`, unknownArgument},
		{`f"make {shlex.quote(target)}")`, unknownArgument},
		{`"never closed`, unknownArgument},
		{"", unknownArgument},
	} {
		if got := argumentOf(c.text); got != c.want {
			t.Errorf("Argument(%s) = %d, want %d", c.text, got, c.want)
		}
	}
}

func TestCommentedAt(t *testing.T) {
	for _, c := range []struct {
		name, text, rest string
		open, want       bool
	}{
		{"none", "text", "", false, false},
		{"opens a line", "<!-- note", "\n\nmore", false, true},
		{"opens a quoted line", "> <!-- note", "", false, true},
		{"closed", "<!-- note --> text", "", false, false},
		{"closed and opened", "<!-- a --> <!-- b", "-->", false, true},
		{"open before", "text", "", true, true},
		{"open before, closed", "text --> more", "", true, false},
		{"in inline code", "a `<!--` b", "-->", false, false},
		{"in inline code of two backticks", "a `` ` <!-- `` b", "-->", false, false},
		{"after a backtick that is never closed", "a ` <!-- b", "-->", false, true},
		{"in a paragraph that closes it", "a <!-- b", "c -->\n\nd", false, true},
		{"in a paragraph that does not", "a <!-- b", "c\n\n-->", false, false},
		{"in a paragraph without end", "a <!-- b", strings.Repeat("c ", 2000), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := commentedAt(c.text, c.rest, c.open, len(c.text)); got != c.want {
				t.Errorf("commented is %t, want %t", got, c.want)
			}
		})
	}
}
