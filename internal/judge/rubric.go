package judge

import (
	"regexp"
	"strings"
)

// listItem is how a line of a list begins.
var listItem = regexp.MustCompile(`^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?`)

// Criteria splits a rubric that holds a list into its items, each after the
// text that introduces the list. A rubric without a list is one criterion.
func Criteria(rubric string) []string {
	var intro, items []string
	for line := range strings.Lines(rubric) {
		mark := listItem.FindString(line)
		text := strings.TrimSpace(line[len(mark):])
		switch {
		case text == "":
		case mark != "":
			items = append(items, text)
		case len(items) > 0:
			items[len(items)-1] += " " + text
		default:
			intro = append(intro, text)
		}
	}
	if len(items) == 0 {
		return []string{strings.TrimSpace(rubric)}
	}
	for i := range items {
		items[i] = strings.TrimSpace(strings.Join(intro, " ") + " " + items[i])
	}
	return items
}
