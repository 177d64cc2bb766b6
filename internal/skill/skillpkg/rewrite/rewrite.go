// Package rewrite changes one part of a SKILL.md, and leaves every other byte as it
// is.
package rewrite

import (
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Description returns the SKILL.md with another description. A skill without one
// gets it before its other fields.
func Description(skillMD, description string) (string, error) {
	d, err := Parse(skillMD)
	if err == nil && !slices.ContainsFunc(d.skill.Fields, isDescription) {
		first, rest, _ := strings.Cut(skillMD, "\n")
		d, err = Parse(first + "\n" + d.LineEnds("description: none\n") + rest)
	}
	if err != nil {
		return "", err
	}
	return d.change(description, d.RawBody)
}

func isDescription(f skillpkg.Field) bool { return f.Key == "description" }

// Body returns the SKILL.md with another body.
func Body(skillMD, body string) (string, error) {
	d, err := Parse(skillMD)
	if err != nil {
		return "", err
	}
	if !text.Valid(body) {
		return "", fault.New(fault.Conflict, "SKILL.md cannot have this body: it is not text")
	}
	return d.change(d.Description, d.LineEnds(LineFeeds(body)))
}

// change is With for a person, who can edit the file where this cannot.
func (d *Document) change(description, rawBody string) (string, error) {
	changed, err := d.With(description, rawBody)
	if err != nil {
		return "", fault.New(fault.Conflict, "SKILL.md cannot be changed here: the new description %s; edit the file itself", err)
	}
	return changed, nil
}
