package cli_test

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// commandsBelow calls do for every command that is not hidden and runs something.
func commandsBelow(node *kong.Node, do func(*kong.Node)) {
	for _, child := range node.Children {
		switch {
		case child.Hidden:
		case child.Leaf():
			do(child)
		default:
			commandsBelow(child, do)
		}
	}
}

// newParser returns the parser, whose help goes to w. It takes long to make.
func newParser(t *testing.T, w io.Writer) *kong.Kong {
	t.Helper()
	parser, err := cli.NewParser(kong.Writers(w, w))
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// TestOnly: the parser of one command knows all of it, and nothing else.
func TestOnly(t *testing.T) {
	for _, whole := range newParser(t, io.Discard).Model.Children {
		args := []string{whole.Name}
		parser, err := cli.NewParser(cli.Only(args)...)
		if err != nil {
			t.Fatal(err)
		}
		children := parser.Model.Children
		if whole.Name == "help" {
			if len(children) == 1 {
				t.Error("help does not know the other commands")
			}
			continue
		}
		if len(children) != 1 {
			t.Errorf("%s: the parser knows %d commands", whole.Name, len(children))
			continue
		}
		if diff := cmp.Diff(summaries(whole), summaries(children[0])); diff != "" {
			t.Errorf("%s (-all +only):\n%s", whole.Name, diff)
		}
	}
	for _, args := range [][]string{nil, {""}, {"-"}, {"--json", "list"}, {"--help"}, {"-list"}, {"brew"}, {"json"}} {
		if got := cli.Only(args); got != nil {
			t.Errorf("%q leaves out commands", args)
		}
	}
}

// summaries returns lines about a command, its flags and the commands below it.
func summaries(node *kong.Node) []string {
	lines := []string{node.FullPath() + ": " + node.Summary() + ": " + node.Help}
	for _, flag := range node.Flags {
		lines = append(lines, flag.String()+": "+flag.Help)
	}
	for _, child := range node.Children {
		lines = append(lines, summaries(child)...)
	}
	return lines
}

// TestHelpWording keeps phrases of a translation out of the help; package internal tests the documents.
func TestHelpWording(t *testing.T) {
	raw, err := os.ReadFile("../testdata/wording.txt")
	if err != nil {
		t.Fatal(err)
	}
	help := strings.Join(summaries(newParser(t, io.Discard).Model.Node), "\n")
	for line := range strings.Lines(string(raw)) {
		phrase, instead, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		if found := regexp.MustCompile("(?i).{0,60}" + phrase + ".{0,60}").FindString(help); found != "" {
			t.Errorf("%q: write %q, or rewrite the sentence", found, instead)
		}
	}
}

// TestBareCall: a group of commands without a command shows its help.
func TestBareCall(t *testing.T) {
	for args, want := range map[string]string{
		"":               "Usage: whetstone <command>",
		"--json":         "Usage: whetstone <command>",
		"eval":           "Usage: whetstone eval <command>",
		"member":         "Usage: whetstone member <command>",
		"help":           "Usage: whetstone <command>",
		"help eval":      "Usage: whetstone eval <command>",
		"help eval run":  "Usage: whetstone eval run <suite>",
		"help skills":    "Usage: whetstone skills <command>",
		"eval run -h":    "Usage: whetstone eval run <suite>",
		"org create -h":  "Usage: whetstone org create <name>",
		"settings":       "Usage: whetstone settings <command>",
		"member --json ": "Usage: whetstone member <command>",
	} {
		r := run(t, strings.Fields(args)...)
		if r.code != term.ExitOK || r.stderr != "" || !strings.HasPrefix(r.stdout, want) {
			t.Errorf("%q: exit code %d, %q, %.60q; want help that begins with %q", args, r.code, r.stderr, r.stdout, want)
		}
	}
	run(t, "help", "brew").wantFailure(t, term.ExitUsage, "no command is called brew; `whetstone help` lists them")
	run(t, "help", "eval", "brew").wantFailure(t, term.ExitUsage, "no command is called eval brew; `whetstone help` lists them")
	if got, want := run(t, "--version"), run(t, "version"); got != want {
		t.Errorf("--version: %+v, want %+v", got, want)
	}
}

// TestHelpOfEveryCommand: a help is short, has the defaults and at least one example.
func TestHelpOfEveryCommand(t *testing.T) {
	example := regexp.MustCompile(`(?m)^Examples:\n  whetstone `)
	var help bytes.Buffer
	parser := newParser(t, &help)
	commandsBelow(parser.Model.Node, func(node *kong.Node) {
		path := node.Path()
		help.Reset()
		if trace, err := kong.Trace(parser, strings.Fields(path)); err != nil || trace.PrintUsage(false) != nil {
			t.Fatalf("%s: no help, %v", path, err)
		}
		if !example.Match(help.Bytes()) {
			t.Errorf("%s: no example in its help; add one to internal/cli/examples.txt", path)
		}
		if flags := strings.Count(help.String(), "\n      --") + strings.Count(help.String(), "\n  --"); flags > 20 && path != "serve" {
			t.Errorf("%s: %d flags in its help; shownSettings chooses those of the server that a command shows", path, flags)
		}
		if strings.Contains(help.String(), "--addr") && path != "serve" && path != "ready" {
			t.Errorf("%s: its help has flags of serve", path)
		}
		if strings.HasPrefix(node.Help, "TODO") || !strings.HasSuffix(strings.TrimSpace(node.Help), ".") {
			t.Errorf("%s: help %q, want a sentence", path, node.Help)
		}
	})
	serve := run(t, "serve", "--help").stdout
	for _, want := range []string{"(default ./data; $WHETSTONE_DATA)", "(default 127.0.0.1:8080;", "--alert-interval=DURATION", "(default 60s;"} {
		if !strings.Contains(strings.Join(strings.Fields(serve), " "), want) {
			t.Errorf("the help of serve has no %s", want)
		}
	}
	if got := run(t, "backup", "--help", "--workers", "9"); got.code != term.ExitOK {
		t.Errorf("a setting that the help leaves out: %+v", got)
	}
}

// TestExamplesParse: no example has a command or a flag that is not there.
func TestExamplesParse(t *testing.T) {
	parser := newParser(t, io.Discard)
	for _, line := range cli.AllExamples() {
		if _, err := parser.Parse(shellWords(line)[1:]); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// shellWords splits a command line at spaces, but not within double quotes, and
// drops what is redirected.
func shellWords(line string) []string {
	line, _, _ = strings.Cut(line, " > ")
	var words []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// TestHint: an error names the help of the command that it is about.
func TestHint(t *testing.T) {
	for args, want := range map[string]string{
		"brew":              "Run `whetstone --help` for the commands.\n",
		"push --nope":       "Run `whetstone push --help` for its usage.\n",
		"eval run":          "Run `whetstone eval run --help` for its usage.\n",
		"org create a b":    "Run `whetstone org create --help` for its usage.\n",
		"eval runn Queries": "Run `whetstone eval --help` for its usage.\n",
	} {
		if r := run(t, strings.Fields(args)...); r.code != term.ExitUsage || !strings.HasSuffix(r.stderr, "\n"+want) {
			t.Errorf("%s: %+v, want %q", args, r, want)
		}
	}
}
