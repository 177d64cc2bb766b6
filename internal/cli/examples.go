package cli

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

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
