package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
)

// prettyCases indents the JSON of a suite's cases for the editor. Invalid JSON is
// returned unchanged.
func prettyCases(document json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, document, "", "  "); err != nil {
		return string(document)
	}
	return b.String()
}

// readCases decodes cases. The path of an issue about the syntax is lineOf and the
// line. The decoder stops at the first mistake, so there is one issue at most.
func readCases(text string) (cases []suites.Fields, err error) {
	err = json.Unmarshal([]byte(text), &cases)
	var offset int64
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = e.Offset
	}
	if err != nil {
		line := 1 + strings.Count(text[:min(max(offset-1, 0), int64(len(text)))], "\n")
		return nil, fault.Issues(fault.Issue{
			Path: []string{lineOf, strconv.Itoa(line)}, Message: "the cases are not a JSON array of objects: " + reason(err),
		})
	}
	return cases, nil
}

// reason returns the message of an encoding/json error without the names of Go types.
func reason(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "found a " + e.Value
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// lineOf is the first part of the path of an issue about a line.
const lineOf = "line"

// troubles finds the lines of the JSON that issues are about. With asJSON each has an
// excerpt of the text around it. Issues of the API have paths like "cases_json",
// "3", "query".
func troubles(issues []fault.Issue, text string, asJSON bool) []trouble {
	places := placeCases(text)
	var all []trouble
	for _, issue := range issues {
		t := trouble{Message: issue.Message}
		switch {
		case len(issue.Path) == 2 && issue.Path[0] == lineOf:
			t.Line, _ = strconv.Atoi(issue.Path[1]) // of readCases
		case len(issue.Path) >= 2 && issue.Path[0] == "cases_json":
			t.place(places, issue.Path[1], issue.Path[2:])
		case len(issue.Path) > 0:
			t.Where = strings.Join(issue.Path, ".")
		}
		if asJSON && t.Line > 0 {
			t.Excerpt = excerpt([]byte(text), t.Line)
		}
		all = append(all, t)
	}
	return all
}

// place sets the case, and the line of its field if the text has that field. Cases
// are counted from 1 for people, from 0 in paths.
func (t *trouble) place(places []map[string]int, index string, field []string) {
	i, err := strconv.Atoi(index)
	if err != nil {
		return
	}
	t.Where = "case " + strconv.Itoa(i+1)
	if i < 0 || i >= len(places) {
		return
	}
	t.Line = places[i][""]
	if len(field) > 0 {
		if line, ok := places[i][field[0]]; ok {
			t.Line = line
		}
	}
}

// placeCases finds the line of each case, under "", and of its fields by their names.
// It stops at anything but an array of objects, and returns the cases until there.
// It is lenient, since the text may be what the issues are about.
func placeCases(text string) (places []map[string]int) {
	d := json.NewDecoder(strings.NewReader(text))
	var breaks []int // offsets of line breaks
	for i := range len(text) {
		if text[i] == '\n' {
			breaks = append(breaks, i)
		}
	}
	// A binary search: a text may have thousands of cases.
	line := func() int { // line of the end of the last token
		n, _ := slices.BinarySearch(breaks, int(d.InputOffset())-1)
		return n + 1
	}
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil
	}
	for d.More() {
		if t, err := d.Token(); err != nil || t != json.Delim('{') {
			return places
		}
		lines := map[string]int{"": line()}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return places
			}
			if text, ok := name.(string); ok {
				lines[text] = line()
			}
			var value json.RawMessage
			if d.Decode(&value) != nil {
				return places
			}
		}
		if _, err := d.Token(); err != nil {
			return places
		}
		places = append(places, lines)
	}
	return places
}
