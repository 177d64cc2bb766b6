package teams

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/glob"
)

// Limits of a CODEOWNERS file. A file over maxCodeowners has no rules at all; a line over
// the other two is ignored.
const (
	maxCodeowners = 256 << 10 // bytes
	maxOwners     = 100       // per line
	maxOwner      = 254       // bytes; the longest valid mail address
)

// An ownersRule is one valid line: a pattern and the owners of the paths that match it.
type ownersRule struct {
	Line    int    // from 1
	Pattern string // as written, e.g. "/skills/**"
	// Owners may be empty: such a line takes the owners of an earlier line away.
	Owners []string

	whole []glob.Pattern // compiled from Pattern; a path matches if one of them does
}

// parseCodeowners returns the rules of a file in its order. As on GitHub, an invalid line
// is ignored instead of failing the file: one with a negation (!), with a range ([a-z]),
// or with an owner that is neither a @user, nor a @org/team, nor a mail address. A file
// that is too large or isn't UTF-8 has no rules.
func parseCodeowners(file string) []ownersRule {
	if len(file) > maxCodeowners || !utf8.ValidString(file) {
		return nil
	}
	var rules []ownersRule
	n := 0
	// Some editors on Windows write a byte order mark, which would become part of the
	// first pattern.
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

// splitOwnersLine splits a line at white space into its pattern and owners, without a
// comment. A backslash escapes a space in the pattern; it's kept, because the pattern's
// own parser unescapes it. An empty line or a comment returns nothing.
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
		// Only a # at the start of a field begins a comment: "a#b" is a name.
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

// The two kinds of owners: "@user" or "@org/team", and a mail address.
var (
	account = regexp.MustCompile(`^@[0-9A-Za-z_.-]+(/[0-9A-Za-z_.-]+)?$`)
	address = regexp.MustCompile(`^[^@\s]+@[^@\s]+$`)
)

// notOwner reports whether s can't be an owner, which makes its whole line invalid.
func notOwner(s string) bool {
	return len(s) > maxOwner || !account.MatchString(s) && !address.MatchString(s)
}

// compile translates the pattern from gitignore syntax, and reports false if CODEOWNERS
// doesn't allow it. A pattern with a slash before its last character is anchored at the
// root; any other matches at every depth. A trailing slash ("docs/") matches only what is
// below the folder, a last segment of * only files directly in it, and everything else
// the path itself and what is below it.
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

// matchOwners returns the rule that applies to a file, e.g. "skills/pdf/SKILL.md". As on
// GitHub the last match wins, even one without owners, which leaves the file unowned. ok
// is false if no rule matches.
func matchOwners(rules []ownersRule, path string) (r ownersRule, ok bool) {
	for _, r := range slices.Backward(rules) {
		if slices.ContainsFunc(r.whole, func(p glob.Pattern) bool { return p.Match(path) }) {
			return r, true
		}
	}
	return r, false
}

// ownerTeam returns the slug of the team that an owner names, e.g. "docs" for
// "@acme/docs". The organisation on the code host is ignored: only the team's name has to
// agree with ours. ok is false for a user or an address.
func ownerTeam(owner string) (name string, ok bool) {
	if !strings.HasPrefix(owner, "@") {
		return "", false
	}
	_, name, ok = strings.Cut(owner, "/")
	return strings.ToLower(name), ok
}

// ownerAddress returns the mail address that an owner is, in lower case as addresses are
// stored. ok is false for a user or a team.
func ownerAddress(owner string) (email string, ok bool) {
	return strings.ToLower(owner), !strings.HasPrefix(owner, "@")
}
