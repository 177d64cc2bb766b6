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

// completionCallback is the first argument with which the scripts call the program. The words
// of the command line follow, the last one being the one to complete.
const completionCallback = "__complete"

//go:embed scripts
var completionScripts embed.FS

// completionCommand prints the script of a shell.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"The shell: ${enum}."`
}

// Help says how to install a script.
func (completionCommand) Help() string {
	return `bash: add 'source <(whetstone completion bash)' to ~/.bashrc.

zsh: write it to a file named _whetstone in a folder of $fpath.

fish: write it to ~/.config/fish/completions/whetstone.fish.

powershell: add 'whetstone completion powershell | Out-String | Invoke-Expression' to $PROFILE.`
}

// Run prints the script.
func (c *completionCommand) Run(p *term.Program) error {
	script, err := completionScripts.ReadFile("scripts/" + c.Shell)
	if err != nil {
		return err
	}
	_, err = p.Stdout.Write(script)
	return err
}

// A candidate is a word that may stand at the cursor, and what it means.
type candidate struct{ word, help string }

// filesFollow is the line that tells a script to complete names of files.
const filesFollow = ":files"

// writeCandidates prints the candidates for the last word, one on each line as
// "word<TAB>help", or ":files" where names of files belong.
func writeCandidates(w io.Writer, app *kong.Application, words []string) {
	found, files := completeWords(app.Node, words)
	for _, c := range found {
		fmt.Fprintf(w, "%s\t%s\n", c.word, c.help)
	}
	if files {
		fmt.Fprintln(w, filesFollow)
	}
}

// completeWords walks through the words before the last one to the command that they
// name, and to the flag or argument at the cursor.
func completeWords(node *kong.Node, words []string) (found []candidate, files bool) {
	if len(words) == 0 {
		words = []string{""}
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	// Bash splits --plan=team into three words.
	before = slices.DeleteFunc(slices.Clone(before), func(word string) bool { return word == "=" })
	if last == "=" {
		last = ""
	}
	var flag *kong.Flag // whose value comes next
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
	if name, value, ok := strings.Cut(last, "="); ok && strings.HasPrefix(last, "--") && flag == nil {
		if flag = takesValue(node, name); flag == nil {
			return nil, false
		}
		found, files = matchingValues(flag.Value, value)
		for i := range found {
			found[i].word = name + "=" + found[i].word
		}
		return found, files
	}
	switch {
	case flag != nil:
		return matchingValues(flag.Value, last)
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
		more, named := matchingValues(arg, last)
		return append(found, more...), named
	}
	return found, false
}

func childOf(node *kong.Node, word string) *kong.Node {
	i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == word })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}

// takesValue returns the flag of that name, if the next word is its value.
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

// flagsOf returns the flags of a command, and those of the command that it runs by
// default.
func flagsOf(node *kong.Node) [][]*kong.Flag {
	if node.DefaultCmd != nil {
		return node.DefaultCmd.AllFlags(false)
	}
	return node.AllFlags(false)
}

func matchingCommands(node *kong.Node, prefix string) (found []candidate) {
	for _, child := range node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, prefix) {
			found = append(found, candidate{child.Name, child.Help})
		}
	}
	return found
}

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

// argumentAt returns the argument at that position; the last one may take many words.
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

// matchingValues returns the possible values of a flag or an argument; files is true for one
// that takes a file or a folder.
func matchingValues(value *kong.Value, prefix string) (found []candidate, files bool) {
	if value.Enum != "" {
		for _, word := range value.EnumSlice() {
			if word != "" && strings.HasPrefix(word, prefix) {
				found = append(found, candidate{word: word})
			}
		}
		return found, false
	}
	names := []string{value.Name}
	if value.Flag != nil {
		names = append(names, strings.ToLower(value.Flag.PlaceHolder))
	}
	return nil, slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains([]string{"file", "dir", "folder", "path", "files"}, name)
	})
}
