package usage

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// examples has one command line on each line, in the order in which help shows them.
//
//go:embed examples.txt
var examples string

// maxOfGroup is how many examples the help of a group of commands shows.
const maxOfGroup = 5

// Examples returns the examples of a command. A group of commands shows the first
// one of each.
func Examples(node *kong.Node) []string {
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
			if seen[next] || len(found) == maxOfGroup {
				continue
			}
			seen[next] = true
		}
		found = append(found, strings.TrimSpace(line))
	}
	return found
}

// AllExamples returns the examples of all commands.
func AllExamples() []string {
	var all []string
	for line := range strings.Lines(examples) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}
