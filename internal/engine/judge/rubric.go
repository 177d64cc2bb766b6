package judge

import (
	"regexp"
	"slices"
	"strings"
)

// listItem matches the beginning of a list item: "- ", "1. ", "* [x] ".
var listItem = regexp.MustCompile(`^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?`)

// Criteria splits a rubric that holds a list into its items, each after the
// text that introduces the list. A rubric without a list is one criterion, and
// one whose list is too long for a grading is refused by Grade.
func Criteria(rubric string) []string {
	var intro []string
	var items [][]string // of lines
	for line := range strings.Lines(rubric) {
		mark := listItem.FindString(line)
		text := strings.TrimSpace(line[len(mark):])
		// Blank lines neither end nor begin an item.
		switch {
		case text == "":
		case mark != "":
			items = append(items, []string{text})
		case len(items) > 0:
			items[len(items)-1] = append(items[len(items)-1], text)
		default:
			intro = append(intro, text)
		}
	}
	if len(items) == 0 {
		return []string{strings.TrimSpace(rubric)}
	}
	if len(items) > maxCriteria {
		intro = nil // Grade refuses so many; do not repeat the text for each
	}
	all := make([]string, len(items))
	for i, lines := range items {
		all[i] = strings.Join(slices.Concat(intro, lines), " ")
	}
	return all
}
