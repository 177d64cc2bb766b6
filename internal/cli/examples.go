package cli

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

// maxExamples is how many examples the help of a group of commands shows.
const maxExamples = 5

// examplesOf returns the examples of a command. A group of commands shows the first
// one of each.
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
