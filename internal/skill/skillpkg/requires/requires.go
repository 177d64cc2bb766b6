// Package requires reads metadata.requires of a SKILL.md: the other skills that a
// skill needs, e.g. "pdf-tables >= 1.2, acme/charts". It owns no tables.
package requires

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/text/unicode/norm"
)

// Key is the key below metadata.
const Key = "requires"

// Limits of the text.
const (
	MaxText  = 4096 // bytes
	MaxCount = 32
	maxName  = 100 // characters, as in the registry
	maxRange = 100 // bytes
	maxShown = 60  // characters of a part in a message
)

// A Requirement is one skill that is needed.
type Requirement struct {
	Org   string // name of another organisation; "" for that of the skill itself
	Name  string
	Range string // of versions, e.g. ">= 1.2"; "" for any
}

// String is the requirement as it may stand in a SKILL.md.
func (r Requirement) String() string {
	return strings.TrimSpace(Label(r.Org, r.Name) + " " + r.Range)
}

// Label is e.g. "acme/charts", or "charts" without an organisation.
func Label(org, name string) string {
	if org == "" {
		return name
	}
	return org + "/" + name
}

// A Problem says why a part of the text is no requirement.
type Problem string

// Parse reads the requirements of a text. Parts that are none are left out, with a
// problem each: one mistake must not hide the other requirements.
func Parse(text string) ([]Requirement, []Problem) {
	if len(text) > MaxText {
		return nil, []Problem{Problem(fmt.Sprintf("it is longer than %d bytes", MaxText))}
	}
	// As names in a SKILL.md are normalised. It may also make commas and slashes.
	text = norm.NFKC.String(text)
	var all []Requirement
	var problems []Problem
	seen := map[[2]string]bool{}
	for _, part := range parts(text) {
		if len(all)+len(problems) == MaxCount {
			return all, append(problems, Problem(fmt.Sprintf("it has more than %d parts; the rest is left out", MaxCount)))
		}
		r, why := parse(part)
		key := [2]string{r.Org, r.Name}
		if why == "" && seen[key] {
			why = "names the skill a second time; write both bounds in one part, such as name >= 1.2 < 2"
		}
		if why != "" {
			problems = append(problems, Problem(fmt.Sprintf("%q %s", shown(part), why)))
			continue
		}
		seen[key] = true
		all = append(all, r)
	}
	return all, problems
}

// orgName is how organisations may be named.
var orgName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$`)

// bound is what a second bound begins with, and no name.
var bound = regexp.MustCompile(`^[<>=!^~|]+\s*[vV]?[0-9xX*]`)

// parts splits at commas, but not before a bound: "a >= 1.2, < 2" is one part.
func parts(text string) (all []string) {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if len(all) > 0 && bound.MatchString(part) {
			all[len(all)-1] += " " + part
			continue
		}
		if part != "" {
			all = append(all, part)
		}
		if len(all) > MaxCount {
			break
		}
	}
	return all
}

func isOperator(r rune) bool { return strings.ContainsRune("<>=!^~|", r) }

// parse reads one part, e.g. "acme/charts >= 1.2"; why is empty if it is well-formed.
func parse(part string) (r Requirement, why string) {
	if !printable(part) {
		return r, "has characters that cannot be printed"
	}
	rest := part
	if org, name, found := strings.Cut(part, "/"); found {
		r.Org, rest = strings.TrimSpace(strings.TrimPrefix(org, "@")), strings.TrimSpace(name)
		if !orgName.MatchString(r.Org) {
			return r, "has no name of an organisation before the slash"
		}
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return unicode.IsSpace(c) || isOperator(c) })
	if end < 0 {
		end = len(rest)
	}
	r.Name, r.Range = rest[:end], strings.Join(strings.Fields(rest[end:]), " ")
	switch {
	case r.Name == "":
		return r, "has no name of a skill"
	case strings.Contains(r.Name, "@"):
		return r, "must have its version behind a space: name = 1.2.0"
	case strings.ContainsAny(r.Name, `/\`) || strings.Contains(r.Range, "/"):
		return r, "must be name or organisation/name"
	case utf8.RuneCountInString(r.Name) > maxName:
		return r, fmt.Sprintf("has a name of more than %d characters", maxName)
	case len(r.Range) > maxRange:
		return r, fmt.Sprintf("has a range of more than %d characters", maxRange)
	}
	if _, exact := r.exact(); r.Range == "" || exact {
		return r, ""
	}
	if _, err := semver.NewConstraint(r.Range); err != nil {
		return r, "has no range of versions behind its name, such as >= 1.2 or ^2.0"
	}
	return r, ""
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s,
		func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' && r != '\n' }) < 0
}

func shown(part string) string {
	if runes := []rune(part); len(runes) > maxShown {
		return string(runes[:maxShown]) + "..."
	}
	return part
}

// exact returns the only version that the range allows, if it is written as "= 1.2.0".
func (r Requirement) exact() (version string, ok bool) {
	version, ok = strings.CutPrefix(r.Range, "=")
	version = strings.TrimSpace(version)
	return version, ok && version != "" && !strings.ContainsFunc(version,
		func(c rune) bool { return unicode.IsSpace(c) || isOperator(c) || c == '*' })
}

// Allows reports whether a version meets the requirement. One that is no SemVer, e.g.
// "nightly", meets only "= nightly" and requirements without a range.
func (r Requirement) Allows(version string) bool {
	if r.Range == "" {
		return true
	}
	exact, isExact := r.exact()
	if isExact && exact == version {
		return true
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	allowed, err := semver.NewConstraint(r.Range)
	return err == nil && allowed.Check(v)
}

// ParseRange reads a range by itself, e.g. ">= 1.2 < 2"; ok is false if it is none.
func ParseRange(text string) (versions string, ok bool) {
	const name = "skill"
	all, problems := Parse(name + " " + text)
	if len(problems) > 0 || len(all) != 1 || all[0].Org != "" || all[0].Name != name {
		return "", false
	}
	return all[0].Range, all[0].Range != ""
}
