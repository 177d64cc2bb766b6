// Package glob matches names against patterns of users, in bounded time for every
// pattern: O(pattern x name) for each of at most MaxAlternatives alternatives.
package glob

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// The limits. A longer pattern is refused, a longer name matches nothing.
const (
	MaxPattern      = 1024
	MaxName         = 4096
	MaxAlternatives = 100
)

var errSyntax = errors.New("the pattern is not valid")

// A Pattern is a pattern without alternatives. In a segment, * matches any
// characters, ? one character, [a-z] one of a class and [^a-z] or [!a-z] one not in
// it; a backslash escapes the next character. The segment ** matches any number of
// segments, at the end at least one: "a/**/c" matches "a/c" and "a/b/b/c".
type Pattern struct {
	segments []string
}

// Parse parses a pattern in which braces have no special meaning.
func Parse(pattern string) (p Pattern, err error) {
	if len(pattern) > MaxPattern {
		return p, fmt.Errorf("the pattern is longer than %d bytes", MaxPattern)
	}
	// path.Match only knows ^ for the negation of a class.
	pattern = strings.ReplaceAll(pattern, "[!", "[^")
	for segment := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(segment, ""); err != nil || segment == "" {
			return p, errSyntax
		}
		p.segments = append(p.segments, segment)
	}
	return p, nil
}

// Match reports whether the pattern matches the whole name. It only backtracks to
// the last **: if the segments after an earlier one have matched once, matching them
// further on cannot help.
func (p Pattern) Match(name string) bool {
	if len(name) > MaxName {
		return false
	}
	next, lastStars, retry := 0, -1, "" // indexes of segments; the name from lastStars on
	rest, more := name, true
	for more {
		segment, after, found := strings.Cut(rest, "/")
		switch {
		case next < len(p.segments) && p.segments[next] == "**":
			lastStars, retry = next, rest
			next++
		case next < len(p.segments) && matches(p.segments[next], segment):
			next++
			rest, more = after, found
		case lastStars >= 0:
			_, retry, more = strings.Cut(retry, "/")
			rest, next = retry, lastStars+1
		default:
			return false
		}
	}
	return next == len(p.segments)
}

func matches(pattern, segment string) bool {
	ok, _ := path.Match(pattern, segment) // Parse has checked the pattern
	return ok
}

// A Set is a pattern with alternatives: "{a,b}/v*" is "a/v*" or "b/v*".
type Set []Pattern

// ParseSet parses a pattern with alternatives in braces. It refuses one that expands
// to more than MaxAlternatives patterns.
func ParseSet(pattern string) (Set, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", MaxPattern)
	}
	e := expansion{rest: pattern}
	all, err := e.sequence(0)
	if err != nil {
		return nil, err
	}
	set := make(Set, len(all))
	for i, one := range all {
		if set[i], err = Parse(one); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// Match reports whether one of the alternatives matches the whole name.
func (s Set) Match(name string) bool {
	for _, p := range s {
		if p.Match(name) {
			return true
		}
	}
	return false
}

// An expansion parses a pattern and expands its alternatives.
type expansion struct {
	rest string
}

// sequence expands up to the end of the pattern or, within braces, of the
// alternative.
func (e *expansion) sequence(depth int) ([]string, error) {
	all := []string{""}
	for e.rest != "" && (depth == 0 || e.rest[0] != ',' && e.rest[0] != '}') {
		if e.rest[0] == '}' {
			return nil, errSyntax
		}
		next := []string{e.literal()}
		if next[0] == "{" {
			var err error
			if next, err = e.group(depth + 1); err != nil {
				return nil, err
			}
		}
		// Checked before the product is built: braces multiply, {a,b}{a,b}... doubles
		// with every five bytes.
		if len(all)*len(next) > MaxAlternatives {
			return nil, errTooMany()
		}
		combined := make([]string, 0, len(all)*len(next))
		for _, before := range all {
			for _, after := range next {
				combined = append(combined, before+after)
			}
		}
		all = combined
	}
	return all, nil
}

// group expands the alternatives behind an opening brace.
func (e *expansion) group(depth int) (all []string, err error) {
	for {
		one, err := e.sequence(depth)
		if err != nil {
			return nil, err
		}
		if all = append(all, one...); len(all) > MaxAlternatives {
			return nil, errTooMany()
		}
		if e.rest == "" {
			return nil, errSyntax // no closing brace
		}
		end := e.rest[0] == '}'
		e.rest = e.rest[1:]
		if end {
			return all, nil
		}
	}
}

// literal consumes one character, a class like [a-z], or a backslash with the
// character that it escapes.
func (e *expansion) literal() string {
	n := 1
	switch e.rest[0] {
	case '\\':
		n = 2
	case '[':
		n = 1 + max(strings.IndexByte(e.rest[1:], ']')+1, 1)
	}
	n = min(n, len(e.rest))
	literal := e.rest[:n]
	e.rest = e.rest[n:]
	return literal
}

func errTooMany() error {
	return fmt.Errorf("the alternatives in braces expand to more than %d patterns", MaxAlternatives)
}
