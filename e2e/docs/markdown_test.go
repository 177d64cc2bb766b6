package docs_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A block is a fenced block of commands in a document.
type block struct {
	line     int // of its opening fence
	commands string
	// prints is the block of output that follows it, or "".
	prints string
	// skip is why the commands cannot run in a test, or "".
	skip string
	// varies is why what is printed cannot be compared, or "".
	varies string
	// exit is the code that the last command ends with.
	exit int
	// before are commands that make what the document supposes to be there.
	before string
	// needs is whether a line "Needs: ..." before the block says what before makes.
	needs bool
	// with are commands that print what placeholders stand for, e.g. ID.
	with map[string]string
}

// marker is a comment in the lines before a fence, which pages do not show:
//
//	<!-- doctest: skip needs a hosted code host -->
//	<!-- doctest: exit 1 -->
//	<!-- doctest: varies the order is random -->
//	<!-- doctest: before whetstone push ./pdf-tables -->
//	<!-- doctest: with KEY_ID=whetstone key list --json | field id -->
var marker = regexp.MustCompile(`^<!-- doctest: (skip|exit|varies|before|with) (.+) -->$`)

// blocks returns the ```sh blocks of a document. A block without a language that
// follows one, with nothing but blank lines between them, is what it prints.
func blocks(text string) []block {
	var all []block
	var marks [][]string
	needs := false // the last line of text begins with "Needs: "
	after := false // nothing but blank lines since the last block of commands
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		info, fenced := strings.CutPrefix(lines[i], "```")
		switch {
		case fenced:
			end := i + 1
			for end < len(lines) && lines[end] != "```" {
				end++
			}
			content := strings.Join(lines[i+1:min(end, len(lines))], "\n") + "\n"
			switch {
			case info == "sh":
				all = append(all, newBlock(i+1, content, marks))
				all[len(all)-1].needs = needs
			case info == "" && after:
				all[len(all)-1].prints = content
			}
			after, marks, needs = info == "sh", nil, false
			i = end
		case marker.MatchString(lines[i]):
			marks, after = append(marks, marker.FindStringSubmatch(lines[i])), false
		case strings.TrimSpace(lines[i]) != "":
			marks, after = nil, false
			needs = strings.HasPrefix(lines[i], "Needs: ")
		}
	}
	return all
}

func newBlock(line int, commands string, marks [][]string) block {
	b := block{line: line, commands: commands, with: map[string]string{}}
	for _, mark := range marks {
		switch mark[1] {
		case "skip":
			b.skip = mark[2]
		case "varies":
			b.varies = mark[2]
		case "exit":
			b.exit, _ = strconv.Atoi(mark[2])
		case "before":
			b.before += mark[2] + "\n"
		case "with":
			name, command, _ := strings.Cut(mark[2], "=")
			b.with[name] = command
		}
	}
	return b
}

var (
	moment = regexp.MustCompile(`\b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?)?`)
	uuid   = regexp.MustCompile(`\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	spaces = regexp.MustCompile(` +`)
)

// missing returns the first line that a document says is printed and that is not
// in the output after the lines before it, or "". Times, ids and the width of
// columns may differ, and "..." stands for any text.
func missing(prints, output string) string {
	printed := strings.Split(normalised(output), "\n")
	for line := range strings.SplitSeq(normalised(prints), "\n") {
		if line == "" || line == "..." {
			continue
		}
		found := false
		for !found && len(printed) > 0 {
			found = like(line, printed[0])
			printed = printed[1:]
		}
		if !found {
			return line
		}
	}
	return ""
}

// normalised replaces what differs from run to run.
func normalised(text string) string {
	text = moment.ReplaceAllString(uuid.ReplaceAllString(text, "ID"), "TIME")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
	}
	return strings.Join(lines, "\n")
}

// like reports whether a line is as documented, where "..." stands for any text.
func like(want, got string) bool {
	parts := strings.Split(want, "...")
	if !strings.HasPrefix(got, parts[0]) {
		return false
	}
	got = got[len(parts[0]):]
	for i, part := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(got, part)
		}
		_, rest, ok := strings.Cut(got, part)
		if !ok {
			return false
		}
		got = rest
	}
	return got == ""
}

func TestBlocks(t *testing.T) {
	const text = "# Title\n\n" +
		"```sh\na\n```\n\n```\nprinted by a\n```\n" +
		"```\nprinted by nothing\n```\n" +
		"<!-- doctest: skip needs a model -->\n```sh\nb\n```\nText.\n```\nnot by b\n```\n" +
		"<!-- doctest: before c1 -->\n<!-- doctest: with ID=c2 -->\n<!-- doctest: exit 3 -->\n```sh\nc ID\n```\n" +
		"<!-- doctest: skip is not about the block below -->\n\nText.\n\n```sh\nd\n```\n" +
		"```text\ne\n```\n"
	want := []block{
		{line: 3, commands: "a\n", prints: "printed by a\n"},
		{line: 14, commands: "b\n", skip: "needs a model"},
		{line: 24, commands: "c ID\n", before: "c1\n", with: map[string]string{"ID": "c2"}, exit: 3},
		{line: 31, commands: "d\n"},
	}
	if diff := cmp.Diff(want, blocks(text), cmp.AllowUnexported(block{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}

func TestMissing(t *testing.T) {
	for _, c := range []struct{ name, prints, output, want string }{
		{"nothing said", "", "anything\n", ""},
		{"other time and width", "2026-01-02 03:04  a  b\n", "2027-12-31 23:59      a b   \n", ""},
		{"other id", "run 01a1e79f-44d5-75ef-b38e-63126d3e7d95\n", "run 02b1e79f-44d5-75ef-b38e-63126d3e7d95\n", ""},
		{"lines between", "a\nb\n", "x\na\ny\nb\nz\n", ""},
		{"another order", "a\nb\n", "b\na\n", "b"},
		{"another number", "5 passed\n", "6 passed\n", "5 passed"},
		{"part left out", "made a (...) and b...\n", "made a (1 KiB) and b with c\n", ""},
		{"end differs", "made ... twice\n", "made it once\n", "made ... twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := missing(c.prints, c.output); got != c.want {
				t.Errorf("missing is %q, want %q", got, c.want)
			}
		})
	}
}
