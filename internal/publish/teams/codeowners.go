package teams

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/glob"
)

// The limits. What lies beyond them is not read.
const (
	maxCodeowners = 256 << 10 // bytes
	maxOwners     = 100       // of one line
	maxOwner      = 254       // bytes, as an address
)

// An ownersRule is one line that was understood: a pattern and the owners of what it matches.
type ownersRule struct {
	Line    int    // from 1
	Pattern string // as it is written, e.g. "/skills/**"
	Owners  []string

	whole []glob.Pattern // one of them matches the path
}

// parseCodeowners returns the rules of a file. As on GitHub, a line that is not valid is left out:
// one with a negation (!), with a range ([a-z]), or with an owner that is neither a
// @user, nor a @org/team, nor an address.
func parseCodeowners(file string) []ownersRule {
	if len(file) > maxCodeowners || !utf8.ValidString(file) {
		return nil
	}
	var rules []ownersRule
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(file, "\uFEFF")) {
		n++
		fields := splitOwnersLine(line)
		if len(fields) == 0 {
			continue
		}
		r := ownersRule{Line: n, Pattern: fields[0]}
		for _, owner := range fields[1:] {
			if !slices.Contains(r.Owners, owner) {
				r.Owners = append(r.Owners, owner)
			}
		}
		if len(r.Owners) <= maxOwners && !slices.ContainsFunc(r.Owners, notOwner) && r.compile() {
			rules = append(rules, r)
		}
	}
	return rules
}

// splitOwnersLine returns the pattern and the owners of a line, without a comment. A backslash
// escapes a space of the pattern.
func splitOwnersLine(line string) (fields []string) {
	var field strings.Builder
	end := func() {
		if field.Len() > 0 {
			fields = append(fields, field.String())
			field.Reset()
		}
	}
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			escaped = false
			field.WriteRune(r)
		case r == '\\':
			escaped = true
			field.WriteRune(r)
		case r == '#' && field.Len() == 0:
			return fields
		case r == ' ' || r == '\t' || r == '\r' || r == '\n':
			end()
		default:
			field.WriteRune(r)
		}
	}
	end()
	return fields
}

var (
	account = regexp.MustCompile(`^@[0-9A-Za-z_.-]+(/[0-9A-Za-z_.-]+)?$`)
	address = regexp.MustCompile(`^[^@\s]+@[^@\s]+$`)
)

func notOwner(s string) bool {
	return len(s) > maxOwner || !account.MatchString(s) && !address.MatchString(s)
}

// compile translates the pattern. It is anchored at the root if it has a slash that is
// not its last character. What ends in a slash matches what lies below, what ends in the
// segment * no folders, and everything else both.
func (r *ownersRule) compile() bool {
	p := r.Pattern
	if strings.ContainsAny(p, "[]") || strings.HasPrefix(p, "!") || strings.HasPrefix(p, `\#`) {
		return false
	}
	p, below := strings.CutSuffix(p, "/")
	p, rooted := strings.CutPrefix(p, "/")
	if !rooted && !strings.Contains(p, "/") {
		p = "**/" + p
	}
	all := []string{p + "/**"}
	switch last := p[strings.LastIndexByte(p, '/')+1:]; {
	case below:
	case last == "*" || last == "**":
		all = []string{p}
	default:
		all = append(all, p)
	}
	for _, one := range all {
		compiled, err := glob.Parse(one)
		if err != nil {
			return false
		}
		r.whole = append(r.whole, compiled)
	}
	return true
}

// matchOwners returns the rule of a file, e.g. "skills/pdf/SKILL.md": the last one that
// matches it. Its owners may be none. ok is false if no rule does.
func matchOwners(rules []ownersRule, path string) (r ownersRule, ok bool) {
	for _, r := range slices.Backward(rules) {
		if slices.ContainsFunc(r.whole, func(p glob.Pattern) bool { return p.Match(path) }) {
			return r, true
		}
	}
	return r, false
}

// ownerTeam returns the name of the team that an owner is, e.g. "docs" of "@acme/docs".
func ownerTeam(owner string) (name string, ok bool) {
	if !strings.HasPrefix(owner, "@") {
		return "", false
	}
	_, name, ok = strings.Cut(owner, "/")
	return strings.ToLower(name), ok
}

// ownerAddress returns the mail address that an owner is, in lower case.
func ownerAddress(owner string) (email string, ok bool) {
	return strings.ToLower(owner), !strings.HasPrefix(owner, "@")
}
