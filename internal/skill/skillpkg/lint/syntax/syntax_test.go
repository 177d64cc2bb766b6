package syntax_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint/syntax"
)

func TestArgument(t *testing.T) {
	for _, c := range []struct {
		text string
		want syntax.Command
	}{
		{`"make all")`, syntax.Constant},
		{"\n  'make all', options)", syntax.Constant},
		{"`make all`)", syntax.Constant},
		{`"make " "all")`, syntax.Constant},
		{`f"make {{all}}")`, syntax.Constant},
		{`f"make {target}")`, syntax.Built},
		{`"make " f"{target}")`, syntax.Built},
		{"`make ${target}`)", syntax.Built},
		{`"make " + target)`, syntax.Built},
		{`"make %s" % target)`, syntax.Built},
		{`"make {}".format(target))`, syntax.Built},
		{`prefix + " all")`, syntax.Built},
		{`command)`, syntax.Unknown},
		{`f"{sys.executable} -m pip")`, syntax.Unknown},
		{`f"make {shlex.quote(target)}")`, syntax.Unknown},
		{`"never closed`, syntax.Unknown},
		{"", syntax.Unknown},
	} {
		if got := syntax.Argument(c.text); got != c.want {
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
			if got := syntax.CommentedAt(c.text, c.rest, c.open, len(c.text)); got != c.want {
				t.Errorf("commented is %t, want %t", got, c.want)
			}
		})
	}
}
