package cli

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// completionCallback is the first argument with which the completion scripts call the
// program. The words of the command line follow, the last one being the one to
// complete.
const completionCallback = "__complete"

// completionScripts has one file per shell, named as in completionCommand.Shell.
//
//go:embed scripts
var completionScripts embed.FS

// completionCommand prints the completion script of a shell.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"The shell: ${enum}."`
}

// Help explains how to install the script, below the description of the command.
func (completionCommand) Help() string {
	return `bash: add 'source <(whetstone completion bash)' to ~/.bashrc.

zsh: write it to a file named _whetstone in a folder of $fpath.

fish: write it to ~/.config/fish/completions/whetstone.fish.

powershell: add 'whetstone completion powershell | Out-String | Invoke-Expression' to $PROFILE.`
}

// Run prints the script. It goes to standard output unchanged, also with --json,
// because the shell evaluates it.
func (c *completionCommand) Run(p *term.Program) error {
	script, err := completionScripts.ReadFile("scripts/" + c.Shell)
	if err != nil {
		return err
	}
	_, err = p.Stdout.Write(script)
	return err
}

// A candidate is a word that could complete the last one, e.g. "--json", and its help;
// the shells that can show it do. Values of flags have no help.
type candidate struct{ word, help string }

// filesFollow is the line that tells a script to complete file names.
const filesFollow = ":files"

// writeCandidates prints the candidates for the last word, one per line as
// "word<TAB>help", and ":files" where file names belong. With no candidates it prints
// nothing, which is not an error.
//
// names returns the names of things on the server, by the tag "names" of an argument or flag.
func writeCandidates(w io.Writer, app *kong.Application, words []string, names func(kind string) []string) {
	found, files := completeWords(app.Node, words, names)
	for _, c := range found {
		fmt.Fprintf(w, "%s\t%s\n", c.word, c.help)
	}
	if files {
		fmt.Fprintln(w, filesFollow)
	}
}

// completeWords returns the candidates for the last of words. It walks through the
// words before it to the command that they name, and to the flag or argument at the
// cursor; files is true if file names are possible, too. It never fails: words that it
// does not understand count as arguments.
func completeWords(node *kong.Node, words []string, names func(kind string) []string) (found []candidate, files bool) {
	if len(words) == 0 {
		words = []string{""}
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	// Bash splits --plan=team into three words at the "=".
	before = slices.DeleteFunc(slices.Clone(before), func(word string) bool { return word == "=" })
	if last == "=" {
		last = ""
	}
	var flag *kong.Flag // set while the next word is this flag's value
	args, onlyArgs := 0, false
	for _, word := range before {
		child := childOf(node, word)
		switch {
		case flag != nil:
			flag = nil
		case onlyArgs:
			args++
		case word == "--":
			onlyArgs = true
		case strings.HasPrefix(word, "-"):
			if !strings.Contains(word, "=") {
				flag = takesValue(node, word)
			}
		case child != nil && args == 0:
			node = child
		default:
			if node.DefaultCmd != nil && args == 0 {
				node = node.DefaultCmd
			}
			args++
		}
	}
	// The form --flag=value: candidates repeat the flag, since the shell replaces the
	// word.
	if name, value, ok := strings.Cut(last, "="); ok && strings.HasPrefix(last, "--") && flag == nil {
		if flag = takesValue(node, name); flag == nil {
			return nil, false
		}
		found, files = matchingValues(flag.Value, value, names)
		for i := range found {
			found[i].word = name + "=" + found[i].word
		}
		return found, files
	}
	switch {
	case flag != nil:
		return matchingValues(flag.Value, last, names)
	case strings.HasPrefix(last, "-") && !onlyArgs:
		return matchingFlags(node, last), false
	}
	if args == 0 && !onlyArgs {
		found = matchingCommands(node, last)
		if node.DefaultCmd != nil {
			node = node.DefaultCmd
		}
	}
	if arg := argumentAt(node, args); arg != nil {
		more, named := matchingValues(arg, last, names)
		return append(found, more...), named
	}
	return found, false
}

// childOf returns the command below node with that name, or nil.
func childOf(node *kong.Node, word string) *kong.Node {
	i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == word })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}

// takesValue returns the flag that word names, e.g. "--org" or "-m", if the next word
// is its value; nil for an unknown flag and for one without a value.
func takesValue(node *kong.Node, word string) *kong.Flag {
	for _, level := range flagsOf(node) {
		for _, flag := range level {
			named := word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short)
			if named && !flag.IsBool() && !flag.IsCounter() {
				return flag
			}
		}
	}
	return nil
}

// flagsOf returns the flags of a command by level, including those of the subcommand
// that runs by default, e.g. of `audit list` for `audit`.
func flagsOf(node *kong.Node) [][]*kong.Flag {
	if node.DefaultCmd != nil {
		return node.DefaultCmd.AllFlags(false)
	}
	return node.AllFlags(false)
}

// matchingCommands returns the subcommands that begin with prefix, without hidden ones.
func matchingCommands(node *kong.Node, prefix string) (found []candidate) {
	for _, child := range node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, prefix) {
			found = append(found, candidate{child.Name, child.Help})
		}
	}
	return found
}

// matchingFlags returns the flags that begin with prefix, e.g. "--js", without hidden
// ones.
func matchingFlags(node *kong.Node, prefix string) (found []candidate) {
	for _, level := range flagsOf(node) {
		for _, flag := range level {
			if !flag.Hidden && strings.HasPrefix("--"+flag.Name, prefix) {
				found = append(found, candidate{"--" + flag.Name, flag.Help})
			}
		}
	}
	return found
}

// argumentAt returns the positional argument at that index, or nil if there are not so
// many. A last argument that takes a list takes all words that follow.
func argumentAt(node *kong.Node, at int) *kong.Value {
	n := len(node.Positional)
	if n > 0 && at >= n && node.Positional[n-1].IsCumulative() {
		at = n - 1
	}
	if at >= n {
		return nil
	}
	return node.Positional[at]
}

// matchingValues returns the possible values of a flag or an argument that has an enum, or
// names something on the server; files is true for one that takes a file or a folder, judged by its name or
// placeholder.
func matchingValues(value *kong.Value, prefix string, names func(kind string) []string) (found []candidate, files bool) {
	words := value.EnumSlice()
	kind := value.Tag.Get("names")
	if kind != "" {
		words = names(kind)
	}
	if kind != "" || value.Enum != "" {
		for _, word := range words {
			if word != "" && strings.HasPrefix(word, prefix) {
				found = append(found, candidate{word: word})
			}
		}
		return found, false
	}
	called := []string{value.Name}
	if value.Flag != nil {
		called = append(called, strings.ToLower(value.Flag.PlaceHolder))
	}
	return nil, slices.ContainsFunc(called, func(name string) bool {
		return slices.Contains([]string{"file", "dir", "folder", "path", "files"}, name)
	})
}
