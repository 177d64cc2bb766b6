package cli

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// helpGroups are the sections of the overview, in the order of the loop. Commands that are in none
// of them are listed last, under lastGroup.
var helpGroups = []struct {
	title    string
	commands []string
}{
	{"Observe: what do agents do with skills?", []string{"import", "hook", "session", "grade", "skills", "costs", "prices", "report"}},
	{"Test: does a skill work?", []string{"init", "check", "source", "eval", "proposal"}},
	{"Ship: publish and install", []string{
		"push", "list", "diff", "history", "gate", "gates", "approve", "approvals", "promote", "visibility", "requires",
		"install", "uninstall", "sync", "status", "verify", "open",
	}},
	{"Watch: is it still good?", []string{"alert", "incident", "rollback", "withdraw"}},
	{"Account and organisation", []string{
		"login", "logout", "whoami", "member", "team", "owners", "service-account", "key-policy", "catalog-token",
		"trusted-publisher", "webhook", "settings", "audit",
	}},
	{"On the server's machine", []string{
		"serve", "ready", "doctor", "config", "migrate", "backup", "restore", "rekey", "org", "user", "key", "device",
		"signing-key", "repohost",
	}},
}

// lastGroup is the section of commands that helpGroups does not name, e.g. a new one.
const lastGroup = "Other commands"

// shownSettings are the settings of the server that the help of a command shows. The
// command accepts all of them, because it reads the same environment and file as
// the server; the others are in the help of serve.
var shownSettings = map[string][]string{
	"backup":  {"data", "database-url", "blob-url", "secret-key", "repohost-url"},
	"restore": {"data", "database-url", "blob-url", "secret-key", "repohost-url"},
	"doctor":  {"data", "database-url", "blob-url", "secret-key"},
	"ready":   {"addr"},
	"config":  {"data"},
}

// moreSettings is shown below the help of the commands in shownSettings.
const moreSettings = "It reads the settings of the server: all flags of `whetstone serve`, their environment variables and " +
	"--config."

// arrangeHelp prepares the model of the command line for its help: it sorts commands
// into sections, hides the settings that shownSettings leaves out, and names values. It
// changes only what is printed, not what is accepted.
func arrangeHelp(app *kong.Application) {
	order := map[string]int{}
	for _, child := range app.Children {
		title := lastGroup
		order[child.Name] = 1_000_000 // after all sections
		for i, g := range helpGroups {
			if j := slices.Index(g.commands, child.Name); j >= 0 {
				title, order[child.Name] = g.title, 1_000*i+j
			}
		}
		child.Group = &kong.Group{Key: title, Title: title + ":"}
		for _, below := range child.Children {
			below.Group = &kong.Group{Key: "Commands", Title: "Commands:"}
		}
	}
	app.HelpFlag.Help = "Show help."
	slices.SortStableFunc(app.Children, func(a, b *kong.Node) int { return order[a.Name] - order[b.Name] })
	eachNode(app.Node, func(node *kong.Node) {
		shown, short := shownSettings[node.Path()]
		if short {
			node.Detail = moreSettings
		}
		for _, flag := range node.Flags {
			// Only settings of the server have an environment variable.
			if short && len(flag.Envs) > 0 && !slices.Contains(shown, flag.Name) {
				flag.Hidden = true
			}
			nameValue(flag)
		}
	})
}

// nameValue gives a flag a placeholder that names its value, e.g. DURATION. By default
// kong shows the flag's default there, which looks like a value to type; helpOfValue
// shows it instead.
func nameValue(flag *kong.Flag) {
	list := flag.IsSlice() && flag.Tag.Sep != -1
	switch {
	case flag.IsBool() || flag.IsCounter():
	case slices.Contains([]string{"Duration", "Age"}, flag.Target.Type().Name()):
		flag.PlaceHolder = "DURATION"
	case flag.Target.Kind() == reflect.Int && flag.PlaceHolder == "":
		flag.PlaceHolder = "N"
	// In capitals it is a name; otherwise it is an example of a value, e.g. "30d".
	case flag.PlaceHolder != "" && flag.PlaceHolder == strings.ToUpper(flag.PlaceHolder):
		// Kong adds ",..." to the placeholder of a list itself.
		if list {
			flag.PlaceHolder = strings.TrimSuffix(flag.PlaceHolder, ",...")
		}
	case flag.Target.Kind() != reflect.Map:
		words := strings.Split(flag.Name, "-")
		flag.PlaceHolder = strings.ToUpper(words[len(words)-1])
	}
}

// helpOfValue returns the help of a flag or an argument, followed by its default and
// its environment variable, e.g. "Lifetime of the link (default 7d)."
func helpOfValue(value *kong.Value) string {
	var notes []string
	if value.HasDefault && value.Default != "" && !value.IsBool() {
		notes = append(notes, "default "+value.Default)
	}
	for _, env := range value.Tag.Envs {
		notes = append(notes, "$"+env)
	}
	if len(notes) == 0 {
		return value.Help
	}
	text, stop := strings.CutSuffix(value.Help, ".")
	text = fmt.Sprintf("%s (%s)", text, strings.Join(notes, "; "))
	if stop {
		text += "."
	}
	return strings.TrimSpace(text)
}

// printHelp prints the help of a command with its examples, and for the overview a line
// about --version and completion. It is kong's help printer.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	node := cmp.Or(ctx.Selected(), ctx.Model.Node)
	for _, flag := range ctx.Model.Flags {
		// The file has settings of the server, so only commands that accept those show
		// --config. Having the flag --data identifies them.
		if flag.Name == "config" {
			accepted := slices.ContainsFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == "data" })
			flag.Hidden = !accepted && node != ctx.Model.Node
		}
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if node == ctx.Model.Node {
		fmt.Fprint(ctx.Stdout,
			"`whetstone --version` prints the version; `whetstone completion SHELL` a script that completes commands.\n")
	}
	if lines := examplesOf(node); len(lines) > 0 {
		fmt.Fprintf(ctx.Stdout, "\nExamples:\n  %s\n", strings.Join(lines, "\n  "))
	}
	return nil
}

// usageHint names the command whose help to read after a usage error: the deepest one
// that was understood, e.g. `whetstone eval run --help`.
func usageHint(err error) string {
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			return fmt.Sprintf("Run `%s --help` for its usage.", node.FullPath())
		}
	}
	return "Run `whetstone --help` for the commands."
}

// eachNode calls do for the node and all commands below it, depth first.
func eachNode(node *kong.Node, do func(*kong.Node)) {
	do(node)
	for _, child := range node.Children {
		eachNode(child, do)
	}
}

// helpCommand is `whetstone help COMMAND`, for people who expect that form of --help.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command, e.g. eval run; all commands when empty."`
}

// Run prints the help of a command. kong prints help for the path that it parsed, so
// the path is replaced by the one to the named command.
func (c *helpCommand) Run(ctx *kong.Context) error {
	node := ctx.Model.Node
	for _, word := range c.Command {
		i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == word && !child.Hidden })
		if i < 0 {
			return fault.Invalid("command", "no command is called %s; `whetstone help` lists them", strings.Join(c.Command, " "))
		}
		node = node.Children[i]
	}
	ctx.Path = []*kong.Path{{App: ctx.Model}}
	if node.Type == kong.CommandNode {
		ctx.Path = append(ctx.Path, &kong.Path{Parent: node.Parent, Command: node})
	}
	return ctx.PrintUsage(false)
}

// examples has one command line per line, in the order in which help shows them. A test
// parses each, so none can go stale.
//
//go:embed examples.txt
var examples string

// maxExamples is how many examples the help of a group of commands shows.
const maxExamples = 5

// examplesOf returns the examples of a command. A group shows the first one of each
// command below it, up to maxExamples.
func examplesOf(node *kong.Node) []string {
	path, group := strings.Fields(node.FullPath()), len(node.Children) > 0
	var found []string
	seen := map[string]bool{}
	for line := range strings.Lines(examples) {
		words := strings.Fields(line)
		if len(words) < len(path) || !slices.Equal(words[:len(path)], path) {
			continue
		}
		if group {
			next := strings.Join(words[:min(len(words), len(path)+1)], " ")
			if seen[next] || len(found) == maxExamples {
				continue
			}
			seen[next] = true
		}
		found = append(found, strings.TrimSpace(line))
	}
	return found
}
